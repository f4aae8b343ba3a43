// The socket: frames come when this page says it is ready for one, never faster.

const ARRAYS = {
  "|u1": Uint8Array, "<i2": Int16Array, "<f4": Float32Array, "<f8": Float64Array,
};

export function connect({ onOpen, onHello, onFrame, onLost }) {
  const address = new URL("socket", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  let socket = null, patience = 500, waiting = false;

  function open() {
    socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = onOpen;
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") {
        patience = 500;
        onHello(JSON.parse(data));
        ready();
      } else {
        waiting = false;
        onFrame(decode(data));
      }
    };
    socket.onclose = () => {
      waiting = false;
      onLost();
      setTimeout(open, patience);
      patience = Math.min(patience * 2, 10000);
    };
  }

  function send(kind, value) {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ [kind]: value }));
  }

  // A page that nobody sees asks for nothing.
  function ready() {
    if (waiting || document.hidden) return;
    waiting = true;
    send("ready", true);
  }
  document.addEventListener("visibilitychange", ready);

  open();
  return { send, ready };
}

function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const frame = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let offset = 4 + length;
  for (const [name, type, shape] of frame.arrays) {
    const size = shape.reduce((a, b) => a * b, 1);
    const array = new ARRAYS[type](buffer, offset, size);
    array.shape = shape;
    frame[name] = array;
    offset += Math.ceil(array.byteLength / 8) * 8;
  }
  return frame;
}
