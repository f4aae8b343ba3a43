// The field: weights of all units, as pictures, as directions in the plane, or as bars.

import { begin, mark, paintTiles, shorten } from "./canvas.js";
import { clusterColour, css } from "./colours.js";

export const FIELDS = {
  tiles: { draw: drawTiles, title: "Filters", caption: "what each unit looks for: bright excites, dark inhibits" },
  plane: { draw: drawPlane, title: "Samples and directions", caption: "a spoke is the weights of a unit; samples have the shape of the unit that won them" },
  bars: { draw: drawBars, title: "Weights", caption: "one card a unit, one bar a feature" },
};

// Each drawing returns the boxes of the units, for clicks and keys: [x, y, width, height].
export function drawField(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  if (!scene.frame) {
    sayWaiting(pen, width, height, scene);
    return [];
  }
  return FIELDS[scene.kind].draw(pen, width, height, scene);
}

const WAITING = {
  waiting: "Waiting for the first samples",
  paused: "Paused before the first sample",
  ended: "The stream ended before the first sample",
};

function sayWaiting(pen, width, height, scene) {
  pen.fillStyle = css("--quiet");
  pen.textAlign = "center";
  pen.font = "15px ui-serif, Georgia, 'Liberation Serif', serif";
  const seconds = scene.compiling;
  const text = seconds === null
    ? WAITING[scene.hello?.state] ?? "Connecting"
    : `The network is being compiled for this machine, once only: ${seconds} s`;
  wrap(pen, text, Math.min(width - 40, 420)).forEach((line, i) => {
    pen.fillText(line, width / 2, height / 2 - 20 + 22 * i);
  });
}

function wrap(pen, text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = (lines.at(-1) + " " + word).trim();
    if (pen.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

// As many columns as make the tiles largest.
function arrange(count, width, height, aspect) {
  let best = { columns: 1, size: 0 };
  for (let columns = 1; columns <= count; columns++) {
    const size = Math.min(width / columns, height / Math.ceil(count / columns) / aspect);
    if (size > best.size) best = { columns, size };
  }
  return best;
}

function drawTiles(pen, width, height, scene) {
  const { frame, shape } = scene;
  const count = scene.nShown, room = Math.max(count, Math.min(frame.max_units, 512));
  const aspect = shape[0] / shape[1];
  const { columns, size } = arrange(room, width, height, aspect);
  const gap = Math.max(1.5, Math.min(6, size * 0.07));
  const w = size - gap, h = size * aspect - gap;
  const left = (width - columns * size + gap) / 2;
  const atlas = paintTiles("tiles", frame.filters, count, shape);
  const linked = chosenLinks(scene);
  pen.imageSmoothingQuality = "high";
  const boxes = [];
  for (let k = 0; k < room; k++) {
    const x = left + (k % columns) * size, y = Math.floor(k / columns) * size * aspect + gap / 2;
    if (k >= count) { // a unit that nothing has called for yet
      pen.fillStyle = css("--line");
      pen.beginPath();
      pen.arc(x + w / 2, y + h / 2, 1.5, 0, 7);
      pen.fill();
      continue;
    }
    boxes.push([x, y, w, h]);
    const glow = scene.glow(k);
    const grown = 1 - 0.45 * Math.max(0, glow - 0.75) / 0.25; // newborn units pop up
    const dx = w * (1 - grown) / 2, dy = h * (1 - grown) / 2;
    pen.globalAlpha = scene.strength(k) * (linked && !linked.has(k) ? 0.6 : 1);
    pen.drawImage(atlas, 0, k * shape[0], shape[1], shape[0], x + dx, y + dy, w * grown, h * grown);
    pen.globalAlpha = 1;
    drawLevel(pen, scene, k, x, y + h, w);
    if (linked?.has(k)) frameBox(pen, x, y, w, h, css("--link"), 0.5 + 2.5 * linked.get(k), 1);
    if (glow > 0) frameBox(pen, x, y, w, h, css("--glow"), 1 + 3 * glow, glow);
    if (scene.chosen === k) frameBox(pen, x, y, w, h, css("--text"), 2.5, 1);
  }
  return boxes;
}

// Which units inhibit the chosen one, and how strongly, as a share of the strongest.
function chosenLinks(scene) {
  if (scene.chosen === null || scene.chosen >= scene.nShown) return null;
  const list = scene.inhibitors(scene.chosen);
  const most = list.length ? list[0][1] : 1;
  return new Map([[scene.chosen, 0], ...list.map(([j, m]) => [j, m / most])]);
}

function drawLevel(pen, scene, k, x, y, w) {
  const share = scene.level[k] / scene.highestLevel;
  pen.fillStyle = css("--glow");
  pen.globalAlpha = 0.9;
  pen.fillRect(x, y + 0.5, w * share, 1.5);
  pen.globalAlpha = 1;
}

function frameBox(pen, x, y, w, h, colour, thickness, alpha) {
  pen.globalAlpha = alpha;
  pen.strokeStyle = colour;
  pen.lineWidth = thickness;
  pen.strokeRect(x - 1, y - 1, w + 2, h + 2);
  pen.globalAlpha = 1;
}

// Bounds that follow the points without jumping.
const bounds = { x: 0, y: 0, half: 0 };

function drawPlane(pen, width, height, scene) {
  const weights = Array.from({ length: scene.nShown }, (_, k) => {
    const peak = scene.frame.peaks[k] / 32767;
    return Array.from(scene.weights(k), (v) => v * peak);
  });
  const xs = [0, ...weights.map((p) => p[0]), ...scene.points.map((p) => p[0])];
  const ys = [0, ...weights.map((p) => p[1]), ...scene.points.map((p) => p[1])];
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const half = Math.max((x1 - x0) / width, (y1 - y0) / height, 1e-9) * 0.56; // units a pixel
  const follow = bounds.half && half < 4 * bounds.half ? 0.08 : 1;
  for (const [name, value] of [["x", (x0 + x1) / 2], ["y", (y0 + y1) / 2], ["half", half]]) {
    bounds[name] += follow * (value - bounds[name]);
  }
  const scale = 1 / (2 * bounds.half);
  const at = ([x, y]) => [width / 2 + (x - bounds.x) * scale, height / 2 - (y - bounds.y) * scale];
  const [ox, oy] = at([0, 0]);
  drawAxes(pen, width, height, ox, oy, scale, scene.names);
  scene.points.forEach((point, i) => {
    pen.globalAlpha = 0.15 + 0.65 * (i / scene.points.length) ** 2;
    pen.fillStyle = point[2] < 0 ? css("--quiet") : clusterColour(point[2]);
    pen.strokeStyle = pen.fillStyle;
    mark(pen, point[2], ...at(point), 3);
  });
  return weights.map((w, k) => drawSpoke(pen, scene, k, [ox, oy], at(w)));
}

function drawAxes(pen, width, height, ox, oy, scale, names) {
  pen.globalAlpha = 1;
  pen.lineWidth = 1;
  pen.strokeStyle = css("--line");
  pen.fillStyle = css("--quiet");
  pen.font = "11px ui-sans-serif, system-ui, 'Liberation Sans', sans-serif";
  pen.textAlign = "center";
  const step = niceStep(90 / scale);
  for (let i = Math.ceil(-ox / scale / step); i * step <= (width - ox) / scale; i++) {
    line(pen, ox + i * step * scale, 0, ox + i * step * scale, height);
    if (i) pen.fillText(+(i * step).toPrecision(4), ox + i * step * scale, height - 5);
  }
  pen.textAlign = "left";
  for (let i = Math.ceil((oy - height) / scale / step); i * step <= oy / scale; i++) {
    line(pen, 0, oy - i * step * scale, width, oy - i * step * scale);
    if (i) pen.fillText(+(i * step).toPrecision(4), 5, oy - i * step * scale - 4);
  }
  pen.strokeStyle = css("--quiet");
  line(pen, ox, 0, ox, height);
  line(pen, 0, oy, width, oy);
  const [x, y] = names || ["feature 1", "feature 2"];
  pen.textAlign = "right";
  pen.fillText(x, width - 6, oy - 6);
  pen.textAlign = "left";
  pen.fillText(y, ox + 6, 14);
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((m) => m * power >= least) * power;
}

function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

function drawSpoke(pen, scene, k, [ox, oy], [x, y]) {
  const r = 12, glow = scene.glow(k);
  pen.globalAlpha = scene.strength(k);
  pen.strokeStyle = css("--text");
  pen.lineWidth = 2;
  line(pen, ox, oy, x, y);
  if (glow > 0) {
    pen.globalAlpha = glow;
    pen.strokeStyle = css("--glow");
    pen.lineWidth = 2 + 4 * glow;
    pen.beginPath();
    pen.arc(x, y, r + 16 * (1 - glow), 0, 7);
    pen.stroke();
  }
  pen.globalAlpha = 1;
  pen.fillStyle = clusterColour(k);
  pen.strokeStyle = css(scene.chosen === k ? "--text" : "--ground");
  pen.lineWidth = scene.chosen === k ? 3 : 2;
  pen.beginPath();
  pen.arc(x, y, r, 0, 7);
  pen.fill();
  pen.stroke();
  pen.fillStyle = css("--ground");
  pen.font = "600 12px ui-sans-serif, system-ui, 'Liberation Sans', sans-serif";
  pen.textAlign = "center";
  pen.fillText(k, x, y + 4);
  return [x - r - 4, y - r - 4, 2 * r + 8, 2 * r + 8];
}

function drawBars(pen, width, height, scene) {
  const count = scene.nShown;
  const { columns, size } = arrange(count, width, height, 0.62);
  const rows = Math.ceil(count / columns);
  const w = width / columns, h = Math.min(height / rows, size * 0.9);
  const linked = chosenLinks(scene);
  return Array.from({ length: count }, (_, k) => {
    const x = (k % columns) * w, y = Math.floor(k / columns) * h;
    pen.globalAlpha = linked && !linked.has(k) ? 0.5 : 1;
    drawCard(pen, scene, k, x + 4, y + 4, w - 8, h - 8);
    const glow = scene.glow(k);
    if (glow > 0) frameBox(pen, x + 5, y + 5, w - 10, h - 10, css("--glow"), 1 + 3 * glow, glow);
    if (linked?.has(k)) frameBox(pen, x + 5, y + 5, w - 10, h - 10, css("--link"), 0.5 + 2 * linked.get(k), 1);
    if (scene.chosen === k) frameBox(pen, x + 5, y + 5, w - 10, h - 10, css("--text"), 2, 1);
    pen.globalAlpha = 1;
    return [x + 4, y + 4, w - 8, h - 8];
  });
}

function drawCard(pen, scene, k, x, y, w, h) {
  pen.fillStyle = css("--panel");
  pen.beginPath();
  pen.roundRect(x, y, w, h, 8);
  pen.fill();
  const tall = h > 60, n = scene.shape[1];
  const named = tall && scene.names && w / n > 26;
  const top = tall ? 24 : 4, bottom = named ? 18 : 6;
  if (tall) {
    pen.fillStyle = css("--quiet");
    pen.font = "12px ui-sans-serif, system-ui, 'Liberation Sans', sans-serif";
    pen.textAlign = "left";
    pen.fillText(`unit ${k}`, x + 10, y + 17);
  }
  pen.globalAlpha *= scene.strength(k);
  drawProfile(pen, scene.weights(k), x + 10, y + top, w - 20, h - top - bottom);
  if (named) drawNames(pen, scene.names, x + 10, y + h - 6, w - 20);
  drawLevel(pen, scene, k, x + 10, y + h - 3, w - 20);
}

function drawNames(pen, names, x, y, w) {
  const step = w / names.length;
  pen.fillStyle = css("--quiet");
  pen.font = "10px ui-sans-serif, system-ui, 'Liberation Sans', sans-serif";
  pen.textAlign = "center";
  names.forEach((name, j) => {
    pen.fillText(shorten(name, Math.floor(step / 5.6)), x + (j + 0.5) * step, y);
  });
}

// Bars up from a line in the middle where they excite, down where they inhibit.
export function drawProfile(pen, weights, x, y, w, h) {
  const step = w / weights.length;
  let low = 0, high = 0;
  for (const v of weights) { low = Math.min(low, v); high = Math.max(high, v); }
  const span = high - low || 1, zero = y + h * high / span;
  for (const [excites, colour] of [[true, css("--glow")], [false, css("--mark")]]) {
    pen.fillStyle = colour;
    weights.forEach((v, j) => {
      if (v > 0 !== excites || !v) return;
      const length = h * Math.abs(v) / span, thick = Math.max(1, step * 0.78);
      pen.fillRect(x + j * step + (step - thick) / 2, v > 0 ? zero - length : zero, thick, length);
    });
  }
  pen.fillStyle = css("--quiet");
  pen.fillRect(x, zero - 0.5, w, 1);
}
