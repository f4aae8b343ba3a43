// The panels beside the field, each drawn from the scene.

import { begin, paint, paintSample, paintTiles } from "./canvas.js";
import { activityColours, clusterColour, css } from "./colours.js";
import { drawProfile } from "./field.js";

const SANS = "ui-sans-serif, system-ui, 'Liberation Sans', sans-serif";

// The latest sample, and the units that respond to it, strongest first.
export function drawNow(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  const { frame, shape, kind } = scene;
  if (!frame || kind === "plane") return;
  const [rows, units] = frame.activities.shape;
  const size = height - 16, gap = 10;
  const aspect = kind === "tiles" ? shape[1] / shape[0] : 1.6;
  const w = size * aspect;
  label(pen, "now", 0, 10);
  if (kind === "tiles") {
    pen.drawImage(paintSample("now", frame.samples, shape), 0, 14, w, size);
  } else {
    drawProfile(pen, frame.samples, 0, 14, w, size);
  }
  const active = [];
  for (let k = 0; k < units && rows; k++) {
    const y = frame.activities[(rows - 1) * units + k];
    if (y) active.push([k, y]);
  }
  active.sort((a, b) => b[1] - a[1]);
  const start = w + 46;
  drawArrow(pen, w + 12, 14 + size / 2, start - 12);
  label(pen, active.length ? `${active.length} of ${frame.n_units} units respond` : "no unit responds", start, 10);
  const atlas = kind === "tiles" ? paintTiles("tiles", frame.filters, scene.nShown, shape) : null;
  const small = size - 8;
  active.slice(0, Math.floor((width - start) / (small * aspect + gap))).forEach(([k, y], i) => {
    const x = start + i * (small * aspect + gap);
    if (atlas) pen.drawImage(atlas, 0, k * shape[0], shape[1], shape[0], x, 14, small * aspect, small);
    else drawProfile(pen, scene.weights(k), x, 14, small * aspect, small);
    pen.fillStyle = css("--line");
    pen.fillRect(x, height - 6, small * aspect, 4);
    pen.fillStyle = css("--glow");
    pen.fillRect(x, height - 6, small * aspect * y / active[0][1], 4);
  });
}

function label(pen, text, x, y) {
  pen.fillStyle = css("--quiet");
  pen.font = `11px ${SANS}`;
  pen.textAlign = "left";
  pen.fillText(text, x, y);
}

function drawArrow(pen, x0, y, x1) {
  pen.strokeStyle = css("--quiet");
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x0, y);
  pen.lineTo(x1, y);
  pen.moveTo(x1 - 5, y - 4);
  pen.lineTo(x1, y);
  pen.lineTo(x1 - 5, y + 4);
  pen.stroke();
}

export function drawExplained(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  pen.strokeStyle = css("--line");
  pen.lineWidth = 1;
  pen.strokeRect(0.5, 0.5, width - 1, height - 1);
  const history = scene.history.length === 1 ? [...scene.history, ...scene.history] : scene.history;
  if (!history.length) return;
  const x = (i) => i / (history.length - 1) * width;
  const y = (v) => height - 1 - Math.max(0, Math.min(1, v)) * (height - 3);
  pen.beginPath();
  history.forEach((v, i) => pen.lineTo(x(i), y(v)));
  pen.strokeStyle = css("--glow");
  pen.lineWidth = 1.6;
  pen.stroke();
  pen.lineTo(width, height);
  pen.lineTo(0, height);
  pen.globalAlpha = 0.14;
  pen.fillStyle = css("--glow");
  pen.fill();
  pen.globalAlpha = 1;
}

export function drawRaster(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  pen.fillStyle = css("--panel");
  pen.fillRect(0, 0, width, height);
  const { columns } = scene;
  const units = scene.nShown;
  if (!columns.length || !units) return;
  // Where units are more than lines, a line shows the strongest of its units.
  const lines = Math.min(units, Math.floor(height * (window.devicePixelRatio || 1)));
  let peak = 1e-30;
  for (const column of columns) for (const y of column) peak = Math.max(peak, y);
  const colours = activityColours();
  const n = 260;
  const image = paint("raster", n, lines, (pixels) => {
    pixels.fill(colours[0]);
    columns.forEach((column, i) => {
      const x = n - columns.length + i;
      column.forEach((y, k) => {
        if (!y) return;
        const pixel = Math.floor(k * lines / units) * n + x;
        const value = Math.round(60 + 195 * Math.sqrt(y / peak));
        if (pixels[pixel] === colours[0] || value > 128) pixels[pixel] = colours[value];
      });
    });
  });
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, width, height);
  if (scene.chosen !== null && scene.chosen < units) {
    pen.strokeStyle = css("--link");
    pen.lineWidth = 1;
    const h = height / units;
    pen.strokeRect(0.5, scene.chosen * h - 1, width - 1, Math.max(h, 1) + 2);
  }
}

export function drawResidual(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  if (!scene.frame) return;
  const sorted = Float32Array.from(scene.frame.residuals).sort();
  const most = Math.max(1.5, 1.05 * (sorted[Math.floor(0.98 * sorted.length)] || 0));
  const bins = new Float32Array(48);
  for (const r of scene.frame.residuals) {
    bins[Math.max(0, Math.min(47, Math.floor((r + 0.2) / (most + 0.2) * 48)))]++;
  }
  const peak = Math.max(...bins, 1), base = height - 14;
  const at = (r) => (r + 0.2) / (most + 0.2) * width;
  bins.forEach((count, i) => {
    const beyond = i / 48 * (most + 0.2) - 0.2 >= 1;
    pen.fillStyle = css(beyond ? "--glow" : "--mark");
    const h = count / peak * (base - 4);
    pen.fillRect(i / 48 * width + 0.5, base - h, width / 48 - 1, h);
  });
  pen.strokeStyle = css("--text");
  pen.lineWidth = 1.5;
  pen.setLineDash([3, 3]);
  pen.beginPath();
  pen.moveTo(at(1), 0);
  pen.lineTo(at(1), base);
  pen.stroke();
  pen.setLineDash([]);
  pen.fillStyle = css("--line");
  pen.fillRect(0, base, width, 1);
  label(pen, "0", at(0) - 3, height - 2);
  label(pen, "\u221a\u03bb", at(1) - 6, height - 2);
}

export function drawCumulative(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  if (!scene.frame) return;
  const all = scene.frame.cumulative;
  const peak = Math.max(...all, 1e-30), step = width / all.length;
  all.forEach((v, k) => {
    pen.fillStyle = scene.kind === "plane" ? clusterColour(k) : css(k === scene.chosen ? "--link" : "--mark");
    const h = Math.sqrt(v / peak) * (height - 3);
    pen.fillRect(k * step, height - 1 - h, Math.max(step - (step > 3 ? 1 : 0.2), 0.5), h);
  });
  pen.fillStyle = css("--line");
  pen.fillRect(0, height - 1, width, 1);
}

export function drawLateral(canvas, scene) {
  const { pen, width, height } = begin(canvas);
  const { frame } = scene;
  if (!frame || !scene.nShown) return "";
  if (scene.nShown <= 10 && scene.kind !== "tiles" && scene.shape[1] <= 12) {
    drawNetwork(pen, width, height, scene);
    return "Inputs below, units above: full lines excite, dashed ones inhibit. Arcs: units inhibit each other.";
  }
  const units = scene.nShown, colours = activityColours();
  const image = paint("lateral", units, units, (pixels) => {
    frame.lateral.forEach((m, i) => { pixels[i] = colours[m ? Math.round(20 + 235 * (m / 255) ** 0.8) : 0]; });
  });
  const side = Math.min(width, height), left = (width - side) / 2;
  pen.imageSmoothingEnabled = units > side;
  pen.drawImage(image, left, 0, side, side);
  if (scene.chosen !== null && scene.chosen < units) {
    pen.strokeStyle = css("--link");
    pen.strokeRect(left, scene.chosen * side / units, side, side / units);
  }
  return "Row: a unit. Column: the unit that inhibits it.";
}

// The network of Fig. 2 of the paper.
function drawNetwork(pen, width, height, scene) {
  const m = scene.nShown, n = scene.shape[1];
  const inputs = Array.from({ length: n }, (_, j) => [(j + 0.5) / n * width, height - 22]);
  const units = Array.from({ length: m }, (_, k) => [(k + 0.5) / m * width, height * 0.42]);
  const { peaks, strongest } = scene.frame;
  const peak = Math.max(...peaks, 1e-30);
  for (let k = 0; k < m; k++) {
    scene.weights(k).forEach((v, j) => {
      const size = Math.abs(v) / 32767 * peaks[k] / peak;
      if (size < 0.02) return;
      pen.globalAlpha = 0.25 + 0.75 * size;
      pen.strokeStyle = css(v > 0 ? "--glow" : "--mark");
      pen.lineWidth = 0.5 + 3.5 * size;
      pen.setLineDash(v > 0 ? [] : [4, 3]);
      pen.beginPath();
      pen.moveTo(...inputs[j]);
      pen.lineTo(...units[k]);
      pen.stroke();
    });
  }
  pen.setLineDash([]);
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < m; j++) {
      const size = strongest ? scene.inhibition(i, j) / strongest : 0;
      if (i === j || size < 0.02) continue;
      const [x0, y0] = units[j], [x1] = units[i];
      // Both arcs of a pair bend upwards, one higher than the other.
      const rise = Math.min(height * 0.36, (i > j ? 0.3 : 0.45) * Math.abs(x1 - x0) + 14);
      pen.globalAlpha = 0.25 + 0.75 * size;
      pen.strokeStyle = css("--link");
      pen.lineWidth = 0.5 + 3 * size;
      pen.beginPath();
      pen.moveTo(x0, y0 - 12);
      pen.bezierCurveTo(x0, y0 - 12 - rise, x1, y0 - 12 - rise, x1, y0 - 14);
      pen.moveTo(x1 - 5, y0 - 14);
      pen.lineTo(x1 + 5, y0 - 14);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
  units.forEach(([x, y], k) => {
    node(pen, x, y, String(k), clusterColour(k), k === scene.chosen);
  });
  inputs.forEach(([x, y], j) => {
    pen.fillStyle = css("--panel");
    pen.strokeStyle = css("--quiet");
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.rect(x - 9, y - 9, 18, 18);
    pen.fill();
    pen.stroke();
    pen.textAlign = "center";
    pen.fillStyle = css("--text");
    pen.font = `11px ${SANS}`;
    pen.fillText(String(j + 1), x, y + 4);
  });
}

function node(pen, x, y, text, colour, isChosen) {
  pen.beginPath();
  pen.arc(x, y, 12, 0, 7);
  pen.fillStyle = colour;
  pen.fill();
  if (isChosen) {
    pen.strokeStyle = css("--text");
    pen.lineWidth = 2.5;
    pen.stroke();
  }
  pen.fillStyle = css("--ground");
  pen.font = `600 11px ${SANS}`;
  pen.textAlign = "center";
  pen.fillText(text, x, y + 4);
}
