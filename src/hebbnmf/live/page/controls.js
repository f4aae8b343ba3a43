// Sliders whose places stand for values, and the keys.

import { short } from "./canvas.js";

const $ = (id) => document.getElementById(id);

const SHARES = [0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9];
const SAMPLES = [50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];
const PLACES = {
  speed: [50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, null],
  rank_penalty: ["auto", 0, ...Array.from({ length: 33 }, (_, i) => 10 ** (i / 4 - 3))],
};
const WORDS = {
  speed: (v) => (v === null ? "as fast as it can" : `${short(v)} a second`),
  memory: (v) => (v === null ? "all samples" : v < 1 ? `${short(100 * v)} % of the stream` : `${short(v)} samples`),
  rank_penalty: (v) => (v === "auto" ? "auto" : v === 0 ? "0" : short(v)),
};

const values = {}; // the value at each place of a slider
const touched = {}; // when the reader last moved it

export function setUp(send) {
  for (const name of Object.keys(WORDS)) {
    const slider = $(name);
    slider.addEventListener("input", () => {
      touched[name] = performance.now();
      const value = values[name]?.[+slider.value];
      if (value === undefined) return;
      show(name, value);
      send("set", [name, value]);
    });
  }
}

// Put the sliders where the model is, unless the reader is just moving them.
export function follow(settings) {
  for (const [name, value] of Object.entries(settings)) {
    if (performance.now() - (touched[name] || -1e9) < 1500) continue;
    const places = PLACES[name] || [...(value !== null && value >= 1 ? SAMPLES : SHARES), null];
    values[name] = insert(places, value);
    const slider = $(name);
    slider.max = values[name].length - 1;
    slider.value = values[name].indexOf(value);
    show(name, value);
  }
}

export function nudge(name, by) {
  const slider = $(name);
  slider.value = +slider.value + by;
  slider.dispatchEvent(new Event("input"));
}

function show(name, value) {
  $(`${name}-value`).textContent = WORDS[name](value);
  $(name).setAttribute("aria-valuetext", WORDS[name](value));
}

// A value that no place stands for gets a place of its own.
function insert(places, value) {
  if (places.includes(value)) return places;
  const i = places.findIndex((p) => p === null || (typeof p === "number" && p > value));
  return [...places.slice(0, i), value, ...places.slice(i)];
}
