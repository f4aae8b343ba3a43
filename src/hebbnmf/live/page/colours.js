// Colours. Lightness rises from the most negative weight to the most positive one.

const DIVERGING = {
  dark: ["#04060c", "#152c57", "#465063", "#d8975a", "#fff3d6"],
  light: ["#0a1f44", "#3f6796", "#aeb0b4", "#f2c78f", "#fffdf6"],
};
const RISING = {
  dark: ["#141924", "#5a4632", "#ffb75e", "#fff6e2"],
  light: ["#fffdf8", "#e9c08a", "#b25e00", "#3a1d00"],
};
// Twelve hues that differ in lightness; marks differ in shape too.
const CLUSTERS = {
  dark: ["#ffb75e", "#6fd3c7", "#a9b8ff", "#ff8f84", "#d5e37c", "#c493e8",
    "#7fb2e5", "#f3d9b1", "#8fd694", "#e87fb0", "#c9a46c", "#9aa7bd"],
  light: ["#b25e00", "#0c7f76", "#3a4fb8", "#b3261e", "#6b7a00", "#7a3ea8",
    "#0f609b", "#8a6d3b", "#2e7d32", "#a3195b", "#5d4420", "#46536b"],
};

export const theme = () => document.documentElement.dataset.theme;
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const clusterColour = (k) => CLUSTERS[theme()][k % 12];

// 256 colours as RGBA bytes: weights from -1 to 1, and activities from 0 to 1.
export const weightColours = () => table("weights", DIVERGING);
export const activityColours = () => table("activities", RISING);

const tables = new Map();

function table(name, stops) {
  const key = name + theme();
  if (!tables.has(key)) tables.set(key, interpolate(stops[theme()].map(parse)));
  return tables.get(key);
}

function parse(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function interpolate(stops) {
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const k = Math.min(Math.floor(place), stops.length - 2);
    const [r, g, b] = stops[k].map((c, j) => Math.round(c + (stops[k + 1][j] - c) * (place - k)));
    colours[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return colours;
}
