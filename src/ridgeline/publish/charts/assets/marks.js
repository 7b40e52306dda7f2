/* Marks: the ten shapes of series (a look is a colour and a shape), and the forms that tell the states apart (see DESIGN.md,
   States): filled = measured, hollow = emulated or unofficial, hollow with a dot = predicted,
   slashed = degraded. */
import { el } from './dom.js';
import SHAPES from './shapes.json' with { type: 'json' }; // null corners: the circle

/** Path of the mark `shape` (1 to 10) with its middle at x, y and about radius r. */
export function markPath(number, x, y, r) {
  const shape = SHAPES[(number - 1) % SHAPES.length]?.corners;
  if (!shape) return `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`;
  return `M${shape.map(([dx, dy]) => `${(x + dx * r).toFixed(2)},${(y + dy * r).toFixed(2)}`).join('L')}Z`;
}

/** The form of a point: what state it is in, before any colour. */
export function markNodes({ slot, shape }, x, y, r, { source = 'measured', degraded = false, overlay = '' } = {}) {
  const colour = degraded ? 'var(--bad)' : `var(--s${slot})`;
  if (degraded) return [
    el('path', { d: markPath(shape, x, y, r), fill: 'var(--surface)', stroke: colour, 'stroke-width': 1.6 }),
    el('path', { d: `M${x - r * 1.4},${y + r * 1.4}L${x + r * 1.4},${y - r * 1.4}`, stroke: colour, 'stroke-width': 1.6, 'stroke-linecap': 'round' }),
  ];
  if (source === 'measured' && !overlay) return [el('path', { d: markPath(shape, x, y, r), fill: colour, stroke: 'var(--surface)', 'stroke-width': 1.2 })];
  const nodes = [el('path', { d: markPath(shape, x, y, r - 0.5), fill: 'var(--surface)', stroke: colour, 'stroke-width': 1.8, 'stroke-linejoin': 'round' })];
  if (source === 'predicted') nodes.push(el('path', { d: markPath(1, x, y, Math.max(1.2, r * 0.3)), fill: colour }));
  return nodes;
}

/** A 14 px swatch for lists, rows and headers. `off`: the series is hidden. */
export const swatch = (series, off = false) =>
  el('svg', { width: 14, height: 14, viewBox: '0 0 14 14', 'aria-hidden': 'true', class: 'swatch' }, markNodes(series, 7, 7, 4.7, { source: off ? 'emulated' : series.source, overlay: series.overlay }));

/** Text in a series' colour, mixed towards the ink until it reads at 4.5:1. */
export const seriesInk = slot => `color-mix(in oklab, var(--s${slot}) 66%, var(--ink))`;
