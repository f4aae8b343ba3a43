// Scene: what the page remembers from frame to frame.

const FLASH = 1800; // milliseconds that a birth glows
const MOST_POINTS = 1500;
const COLUMNS = 260;
const MOST_HISTORY = 600;

export class Scene {
  constructor() {
    this.hello = null;
    this.frame = null;
    this.chosen = null;
    this.clear();
  }

  clear() {
    this.births = []; // when each unit was born: [sample, moment it was seen]
    this.level = new Float32Array(0); // activity of each unit, smoothed
    this.points = []; // [x, y, label]
    this.columns = []; // responses to the latest samples
    this.history = []; // explained similarity
    this.thinning = 1;
    this.ticks = 0;
    this.seen = 0;
    this.moment = 0;
  }

  greet(hello) {
    this.hello = hello;
    const { n_features: n, shape, names } = hello;
    this.names = names;
    this.kind = shape ? "tiles" : n === 2 ? "plane" : "bars";
    this.shape = shape || [1, n || 1];
  }

  // Seconds since the compiler has started; null if it is not at work.
  get compiling() {
    const start = this.hello?.compiling ?? null;
    return start === null ? null : Math.max(0, Math.round(Date.now() / 1000 - start));
  }

  take(frame) {
    const now = performance.now();
    if (this.frame && frame.n_samples < this.frame.n_samples) this.clear();
    this.frame = frame;
    this.fresh = Math.min(frame.n_samples - this.seen, frame.labels.length);
    const seconds = Math.min((now - this.moment) / 1000, 1);
    this.takeUnits(frame, now);
    this.takeColumns(frame, seconds);
    this.takePoints(frame);
    if (this.fresh > 0) this.takeHistory(frame);
    this.seen = frame.n_samples;
    this.moment = now;
  }

  takeUnits(frame, now) {
    const first = !this.seen;
    const level = new Float32Array(frame.births.length);
    level.set(this.level.subarray(0, level.length));
    frame.births.forEach((born, k) => {
      if (!this.births[k] || this.births[k][0] !== born) this.births[k] = [born, first ? -Infinity : now];
    });
    this.births.length = level.length;
    const [rows, units] = frame.activities.shape;
    const used = Math.min(rows, 24);
    for (let k = 0; k < units; k++) {
      let sum = 0;
      for (let t = rows - used; t < rows; t++) sum += frame.activities[t * units + k];
      const mean = used ? sum / used / 255 * frame.highest : 0;
      level[k] += 0.3 * (mean - level[k]);
    }
    this.level = level;
    this.highestLevel = Math.max(...level, 1e-30);
  }

  takeColumns(frame, seconds) {
    const [rows, units] = frame.activities.shape;
    // Slow streams show each sample; of fast ones as many as the eye can follow.
    const shown = Math.min(this.fresh, Math.max(4, Math.round(160 * seconds)));
    for (let t = rows - shown; t < rows; t++) {
      const column = new Float32Array(units);
      for (let k = 0; k < units; k++) column[k] = frame.activities[t * units + k] / 255 * frame.highest;
      this.columns.push(column);
    }
    this.columns.splice(0, this.columns.length - COLUMNS);
  }

  takePoints(frame) {
    if (this.kind !== "plane") return;
    const rows = frame.labels.length;
    for (let t = rows - this.fresh; t < rows; t++) {
      this.points.push([frame.samples[2 * t], frame.samples[2 * t + 1], frame.labels[t]]);
    }
    this.points.splice(0, this.points.length - MOST_POINTS);
  }

  // The whole history in few points: when there are too many, every second one goes.
  takeHistory(frame) {
    if (this.ticks++ % this.thinning || frame.explained === null) return;
    this.history.push(frame.explained);
    if (this.history.length > MOST_HISTORY) {
      this.history = this.history.filter((_, i) => i % 2 === 0);
      this.thinning *= 2;
    }
  }

  // 1 at the moment of a birth, 0 once it has stopped glowing.
  glow(k) {
    return Math.max(0, 1 - (performance.now() - this.births[k][1]) / FLASH);
  }

  get isMoving() {
    return this.births.some((_, k) => this.glow(k) > 0);
  }

  // Units fade as their cumulative activity falls behind that of the others.
  strength(k) {
    const all = this.frame.cumulative;
    if (this.sortedFor !== this.frame) {
      this.sortedFor = this.frame;
      this.median = Float32Array.from(all).sort()[all.length >> 1] || 1;
    }
    return 0.3 + 0.7 * Math.min(1, Math.sqrt(all[k] / this.median));
  }

  weights(k) {
    const n = this.frame.filters.shape[1];
    return this.frame.filters.subarray(k * n, (k + 1) * n);
  }

  inhibition(i, j) {
    const units = this.frame.lateral.shape[0];
    return this.frame.lateral[i * units + j] / 255 * this.frame.strongest;
  }

  // The units that inhibit unit i most, strongest first.
  inhibitors(i, most = 8) {
    const units = this.frame.lateral.shape[0];
    return Array.from({ length: units }, (_, j) => [j, this.inhibition(i, j)])
      .filter(([, m]) => m > 0).sort((a, b) => b[1] - a[1]).slice(0, most);
  }

  get nShown() {
    return this.frame ? this.frame.births.length : 0;
  }
}
