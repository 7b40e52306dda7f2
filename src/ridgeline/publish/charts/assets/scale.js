/* Scales: data to px and back, with ticks at round numbers. */

const STEPS = [1, 2, 2.5, 5, 10];

export function linear([d0, d1], [r0, r1]) {
  const scale = value => r0 + ((value - d0) / (d1 - d0)) * (r1 - r0);
  scale.invert = px => d0 + ((px - r0) / (r1 - r0)) * (d1 - d0);
  scale.ticks = count => {
    const raw = (d1 - d0) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = STEPS.map(m => m * power).find(s => s >= raw * 0.999);
    const first = Math.ceil(d0 / step - 1e-9), last = Math.floor(d1 / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
  };
  return scale;
}

export function logarithmic([d0, d1], range) {
  const inner = linear([Math.log(d0), Math.log(d1)], range);
  const scale = value => inner(Math.log(value));
  scale.invert = px => Math.exp(inner.invert(px));
  scale.ticks = count => {
    const decades = Math.log10(d1 / d0);
    const digits = decades * 3 <= count ? [1, 2, 5] : decades <= count ? [1, 3] : [1];
    const out = [];
    for (let e = Math.floor(Math.log10(d0)); e <= Math.ceil(Math.log10(d1)); e++)
      for (const m of digits) { const v = +(m * 10 ** e).toPrecision(6); if (v >= d0 && v <= d1) out.push(v); }
    return out;
  };
  return scale;
}

const ROUND = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
/** A round number at or below `value`, or at or above it. */
export function round(value, up) {
  if (!(value > 0)) return 0;
  const power = 10 ** Math.floor(Math.log10(value)), share = value / power;
  const best = up ? ROUND.find(r => r >= share * 0.9999) : ROUND.findLast(r => r <= share * 1.0001);
  return +(best * power).toPrecision(6);
}

/** A step for a control that moves over a range of this size: about fifty of them, round. */
export const stepOf = span => { const raw = span / 50, power = 10 ** Math.floor(Math.log10(raw)); return STEPS.map(m => m * power).find(s => s >= raw * 0.999); };
