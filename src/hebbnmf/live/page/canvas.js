// Canvases in CSS pixels, sharp on any screen; and pictures made of numbers.

import { weightColours } from "./colours.js";

export function begin(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

const pool = new Map();

// A canvas off the screen, kept under a name, with one pixel a number.
export function paint(name, width, height, colourOf) {
  let canvas = pool.get(name);
  if (!canvas) pool.set(name, (canvas = document.createElement("canvas")));
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  colourOf(new Uint32Array(image.data.buffer));
  pen.putImageData(image, 0, 0);
  return canvas;
}

// Rows of weights as pictures one below the other.
export function paintTiles(name, rows, count, [height, width]) {
  const colours = weightColours();
  return paint(name, width, Math.max(height * count, 1), (pixels) => {
    for (let i = 0; i < rows.length; i++) pixels[i] = colours[(rows[i] + 32767) >> 8];
  });
}

// Numbers of any scale as one picture, grey in the middle at zero.
export function paintSample(name, sample, [height, width]) {
  const colours = weightColours();
  let mean = 0, peak = 1e-30;
  for (const v of sample) mean += v / sample.length;
  // Pixels are never negative: what matters is how they differ.
  const centre = sample.every((v) => v >= 0) ? mean : 0;
  for (const v of sample) peak = Math.max(peak, Math.abs(v - centre));
  return paint(name, width, height, (pixels) => {
    sample.forEach((v, i) => { pixels[i] = colours[Math.round((v - centre) / peak * 127.5 + 127.5)]; });
  });
}

// The marks of clusters: shapes as well as colours.
export function mark(pen, shape, x, y, r) {
  pen.beginPath();
  if (shape < 0) {
    pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r);
    pen.moveTo(x - r, y + r); pen.lineTo(x + r, y - r);
    pen.stroke();
    return;
  }
  const corners = [0, 4, 3, 4, 5, 3, 6, 7][shape % 8];
  const turn = [0, Math.PI / 4, -Math.PI / 2, 0, -Math.PI / 2, Math.PI / 2, 0, 0][shape % 8];
  if (!corners) pen.arc(x, y, r, 0, 7);
  for (let i = 0; i < corners; i++) {
    const a = turn + (i / corners) * 2 * Math.PI;
    pen.lineTo(x + 1.25 * r * Math.cos(a), y + 1.25 * r * Math.sin(a));
  }
  pen.fill();
}

export function short(n) {
  if (n === null || n === undefined || !isFinite(n)) return "-";
  const a = Math.abs(n);
  if (a >= 1e9) return (n / 1e9).toPrecision(3) + "G";
  if (a >= 1e6) return (n / 1e6).toPrecision(3) + "M";
  if (a >= 1e4) return Math.round(n).toLocaleString("en");
  if (a >= 100 || Number.isInteger(n)) return Math.round(n).toLocaleString("en");
  return String(+n.toPrecision(2));
}

export function shorten(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
}
