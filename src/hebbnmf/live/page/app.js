// The page: frames come in, the scene takes them, everything is drawn once a frame.

import { short } from "./canvas.js";
import { follow, nudge, setUp } from "./controls.js";
import { drawField, FIELDS } from "./field.js";
import { connect } from "./link.js";
import * as panels from "./panels.js";
import { Scene } from "./scene.js";
import { downloadPicture, downloadSnapshot } from "./share.js";
import { drawUnit } from "./unit.js";

const $ = (id) => document.getElementById(id);
const scene = new Scene();
let boxes = [], dirty = true, note = null, summarised = 0;

setTheme(recalledTheme());

const link = connect({
  onOpen() {
    if (scene.chosen !== null) link.send("unit", scene.chosen);
  },
  // At first, and whenever one of these facts changes.
  onHello(hello) {
    scene.greet(hello);
    const field = FIELDS[scene.kind];
    $("source").textContent = hello.name;
    $("field-title").textContent = field.title;
    $("field-caption").textContent = field.caption;
    $("now-box").hidden = scene.kind === "plane";
    $("save").title = `Write model and position to ${hello.checkpoint} (w)`;
    document.title = `hebbnmf live: ${hello.name}`;
    if (!scene.frame) showStatus(hello); // later ones come with the frames
    else showNote(hello.note);
    showCompiling();
    dirty = true;
  },
  onFrame(frame) {
    scene.take(frame);
    showStatus(frame);
    showNumbers(frame);
    dirty = true;
    requestAnimationFrame(() => link.ready());
  },
  onLost() {
    showState("lost");
  },
});

function draw() {
  requestAnimationFrame(draw);
  if (!dirty && !scene.isMoving) return;
  dirty = false;
  boxes = drawField($("field"), scene);
  panels.drawNow($("now"), scene);
  panels.drawExplained($("explained-chart"), scene);
  panels.drawRaster($("raster"), scene);
  panels.drawResidual($("residual"), scene);
  panels.drawCumulative($("cumulative"), scene);
  $("lateral-caption").textContent = panels.drawLateral($("lateral"), scene);
  drawUnit(scene, choose);
}
requestAnimationFrame(draw);

function showStatus({ state, settings, note: latest }) {
  showState(state);
  follow(settings);
  showNote(latest);
}

// What was said before this page was opened is not for its reader.
function showNote([number, text]) {
  if (number > (note ?? number)) toast(text);
  note = number;
}

function showCompiling() {
  const seconds = scene.compiling;
  $("compiling").textContent = seconds === null ? "" : `(compiling, once only: ${seconds} s)`;
  if (seconds !== null && !scene.frame) dirty = true;
}
setInterval(showCompiling, 1000);

const STATES = {
  waiting: "waiting for samples",
  learning: "learning",
  paused: "paused",
  ended: "the stream has ended",
  lost: "connection lost: this is the last picture",
};

function showState(state) {
  $("state").dataset.state = state;
  $("state-text").textContent = STATES[state];
  const isPaused = state === "paused";
  $("pause").textContent = isPaused ? "Go on" : "Pause";
  for (const id of ["pause", "step", "speed", "memory", "rank_penalty"]) {
    $(id).disabled = state === "ended" || state === "lost";
  }
  $("save").disabled = state === "lost";
}

function showNumbers(frame) {
  $("n-samples").textContent = short(frame.n_samples);
  $("rate").textContent = short(frame.state === "learning" ? frame.speed : 0);
  $("n-units").textContent = frame.n_units;
  $("max-units").textContent = `of ${frame.max_units}`;
  $("n-active").textContent = frame.n_active.toFixed(1);
  $("explained").textContent = frame.explained === null ? "" : frame.explained.toFixed(2);
  if (frame.clock !== null) $("source").textContent = `${scene.hello.name}, ${frame.clock.toFixed(1)} s`;
  if (performance.now() - summarised > 15000) {
    summarised = performance.now();
    $("summary").textContent = `${short(frame.n_samples)} samples, ${frame.n_units} units, ` +
      `explained similarity ${frame.explained === null ? "unknown" : frame.explained.toFixed(2)}`;
  }
}

function choose(unit) {
  scene.chosen = unit;
  link.send("unit", unit);
  dirty = true;
  const { frame } = scene;
  $("chosen").textContent = unit === null ? "" :
    `unit ${unit}, born at sample ${short(frame.births[unit])}, inhibited by ` +
    (scene.inhibitors(unit, 3).map(([j]) => j).join(", ") || "none");
}

function toast(text) {
  $("toast").textContent = text;
  $("toast").classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => $("toast").classList.remove("shown"), 4000);
}

// The browser may forbid to remember: then the system's choice holds.
function recalledTheme() {
  try {
    const kept = localStorage.getItem("hebbnmf-theme");
    if (kept) return kept;
  } catch { /* private mode */ }
  return matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  dirty = true;
}

function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  setTheme(theme);
  try {
    localStorage.setItem("hebbnmf-theme", theme);
  } catch { /* private mode */ }
}

// Where a key leads from the chosen box: the nearest one in that direction.
function neighbour(dx, dy) {
  if (scene.chosen === null || !boxes[scene.chosen]) return boxes.length ? 0 : null;
  const middle = ([x, y, w, h]) => [x + w / 2, y + h / 2];
  const [cx, cy] = middle(boxes[scene.chosen]);
  let best = scene.chosen, least = Infinity;
  boxes.forEach((box, k) => {
    const [x, y] = middle(box);
    const along = (x - cx) * dx + (y - cy) * dy, across = Math.abs((x - cx) * dy) + Math.abs((y - cy) * dx);
    if (along > 1 && along + 3 * across < least) [best, least] = [k, along + 3 * across];
  });
  return best;
}

const title = () => `${scene.hello?.name ?? ""}, ${short(scene.frame?.n_samples ?? 0)} samples`;
const ACTIONS = {
  pause: () => link.send("do", $("state").dataset.state === "paused" ? "resume" : "pause"),
  step: () => link.send("do", "step"),
  save: () => link.send("do", "save"),
  picture: () => downloadPicture($("field"), title()),
  snapshot: () => downloadSnapshot(`hebbnmf: ${title()}`),
  theme: switchTheme,
  help: () => $("about").showModal(),
  close: () => choose(null),
};
for (const [id, act] of Object.entries(ACTIONS)) $(id).addEventListener("click", act);

const KEYS = {
  " ": "pause", s: "step", w: "save", p: "picture", h: "snapshot", d: "theme", "?": "help", Escape: "close",
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("about").open) return;
  const onButton = event.target.closest("button"), onSlider = event.target.closest("input");
  if (ARROWS[event.key] && !onSlider) {
    choose(neighbour(...ARROWS[event.key]));
  } else if (event.key === "+" || event.key === "-") {
    nudge("speed", event.key === "+" ? 1 : -1);
  } else if (KEYS[event.key] && !(event.key === " " && onButton)) {
    ACTIONS[KEYS[event.key]]();
  } else {
    return;
  }
  event.preventDefault();
});

$("field").addEventListener("click", ({ offsetX: x, offsetY: y }) => {
  const hit = boxes.findIndex(([left, top, w, h]) => x >= left && x < left + w && y >= top && y < top + h);
  choose(hit < 0 || hit === scene.chosen ? null : hit);
});

$("knobs").addEventListener("click", () => {
  const isOpen = document.querySelector(".controls").classList.toggle("open");
  $("knobs").setAttribute("aria-expanded", isOpen);
});

setUp(link.send);
addEventListener("resize", () => { dirty = true; });
