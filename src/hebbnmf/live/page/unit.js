// The chosen unit: its weights, its birth, the samples it likes, the units that inhibit it.

import { begin, paintSample, paintTiles, short, shorten } from "./canvas.js";
import { css } from "./colours.js";
import { drawProfile } from "./field.js";

const $ = (id) => document.getElementById(id);
const MOST_BARS = 24;

export function drawUnit(scene, choose) {
  const k = scene.chosen, { frame } = scene;
  $("unit").hidden = k === null || !frame || k >= scene.nShown;
  if ($("unit").hidden) return;
  $("unit-title").textContent = `Unit ${k}`;
  drawWeights(scene, k);
  drawFacts(scene, k);
  drawFavourites(scene);
  drawInhibitors(scene, k, choose);
}

function drawWeights(scene, k) {
  const { pen, width, height } = begin($("unit-filter"));
  if (scene.kind === "tiles") {
    const [h, w] = scene.shape, size = Math.min(width / w, height / h);
    const picture = paintTiles("unit", scene.weights(k), 1, scene.shape);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(picture, (width - w * size) / 2, (height - h * size) / 2, w * size, h * size);
    return;
  }
  drawNamedBars(pen, width, height, scene, k);
}

// Bars from left to right, the features with the largest weights first where there are many.
function drawNamedBars(pen, width, height, scene, k) {
  const weights = Array.from(scene.weights(k), (v) => v / 32767 * scene.frame.peaks[k]);
  let order = weights.map((_, j) => j);
  if (order.length > MOST_BARS) {
    order = order.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a])).slice(0, MOST_BARS);
  }
  const peak = Math.max(...weights.map(Math.abs), 1e-30);
  const step = Math.min(26, height / order.length), thick = Math.max(2, step - 4), left = 118;
  const zero = left + (width - left - 44) / 2, room = (width - left - 44) / 2;
  pen.font = `${Math.min(12, step)}px ui-sans-serif, system-ui, 'Liberation Sans', sans-serif`;
  order.forEach((j, i) => {
    const v = weights[j], y = i * step;
    pen.fillStyle = css(v > 0 ? "--glow" : "--mark");
    pen.fillRect(v > 0 ? zero : zero + v / peak * room, y, Math.abs(v) / peak * room, thick);
    if (step < 9) return;
    pen.fillStyle = css("--text");
    pen.textAlign = "right";
    pen.fillText(shorten(scene.names?.[j] ?? `feature ${j}`, 15), left - 6, y + thick / 2 + 4);
    pen.textAlign = "left";
    pen.fillStyle = css("--quiet");
    pen.fillText(v.toPrecision(2), width - 42, y + thick / 2 + 4);
  });
  pen.fillStyle = css("--quiet");
  pen.fillRect(zero, 0, 1, order.length * step);
}

function drawFacts(scene, k) {
  const { frame } = scene;
  const [rows, units] = frame.activities.shape;
  let active = 0;
  for (let t = 0; t < rows; t++) active += frame.activities[t * units + k] > 0;
  const facts = {
    "born at sample": frame.births[k] < 0 ? "unknown" : short(frame.births[k]),
    "cumulative activity": short(frame.cumulative[k]),
    "responds to": rows ? `${Math.round(active / rows * 100)} % of samples` : "-",
    "learning rate": frame.cumulative[k] > 0 ? (1 / frame.cumulative[k]).toPrecision(2) : "-",
  };
  $("unit-facts").replaceChildren(...Object.entries(facts).map(([name, value]) => {
    const box = document.createElement("div");
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    box.append(term, text);
    return box;
  }));
}

function drawFavourites(scene) {
  const { frame, shape, kind } = scene;
  $("unit-favourites").style.height = kind === "tiles" ? "" : "120px";
  const { pen, width, height } = begin($("unit-favourites"));
  const samples = frame.unit === scene.chosen ? frame.favourites : null;
  const count = samples ? samples.shape[0] : 0;
  if (!count) {
    pen.fillStyle = css("--quiet");
    pen.font = "12px ui-sans-serif, system-ui, 'Liberation Sans', sans-serif";
    pen.fillText("none of the samples shown so far", 0, 16);
    return;
  }
  const n = samples.shape[1];
  const w = (width - 24) / 4, h = Math.min(height / 2 - 14, kind === "tiles" ? w * shape[0] / shape[1] : 46);
  for (let i = 0; i < count; i++) {
    const sample = Array.from(samples.subarray(i * n, (i + 1) * n));
    const x = (i % 4) * (w + 8), y = Math.floor(i / 4) * (h + 14);
    if (kind === "tiles") pen.drawImage(paintSample("favourite", sample, shape), x, y, w, h);
    else drawProfile(pen, sample, x, y, w, h);
    pen.fillStyle = css("--glow");
    pen.fillRect(x, y + h + 3, w * frame.favourite_activities[i] / frame.favourite_activities[0], 3);
  }
}

function drawInhibitors(scene, k, choose) {
  const box = $("unit-inhibitors"), list = scene.inhibitors(k, 8);
  if (!list.length) {
    box.textContent = "no other unit";
    return;
  }
  while (box.children.length > list.length || (box.firstChild && !box.children.length)) box.lastChild.remove();
  list.forEach(([j, m], i) => {
    const button = box.children[i] || box.appendChild(makeInhibitor());
    button.onclick = () => choose(j);
    button.setAttribute("aria-label", `unit ${j}, weight ${m.toPrecision(2)}`);
    button.querySelector("span").textContent = `${j}: ${m.toPrecision(2)}`;
    button.querySelector("i").style.width = `${Math.round(m / list[0][1] * 100)}%`;
    const { pen, width, height } = begin(button.querySelector("canvas"));
    if (scene.kind === "tiles") pen.drawImage(paintTiles("inhibitor", scene.weights(j), 1, scene.shape), 0, 0, width, height);
    else drawProfile(pen, scene.weights(j), 0, 0, width, height);
  });
}

function makeInhibitor() {
  const button = document.createElement("button");
  button.append(...["canvas", "i", "span"].map((name) => document.createElement(name)));
  return button;
}
