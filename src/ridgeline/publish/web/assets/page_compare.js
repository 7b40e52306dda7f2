/* Two frontiers in one picture: A grey with squares, B teal with circles; plain blue where B is ahead, hatched orange
   where it is behind. Lines run straight through what was measured. */
import { el, number, one, textWidth, tickText } from './dom.js';
import { markPath } from './marks.js';
import { linear } from './scale.js';
import { servedPage } from './served.js';

const picture = JSON.parse(one('#data').textContent), MARK = { a: 2, b: 1 };
servedPage();
one('#pair')?.addEventListener('change', event => event.currentTarget.requestSubmit());

/* y of a line at x, between its knots. */
const reading = (knots, x) => { for (let i = 1; i < knots.length; i++) if (x <= knots[i][0]) { const [ax, ay] = knots[i - 1], [bx, by] = knots[i]; return bx === ax ? by : ay + ((by - ay) * (x - ax)) / (bx - ax); } return knots.at(-1)[1]; };

function draw() {
  const host = one('#plot');
  if (!host) return;
  host.replaceChildren();
  if (!picture) { host.append(el('div', { class: 'nothing' }, el('p', {}, el('b', {}, 'No chart holds points of both runs.')))); return; }
  const W = host.clientWidth - 8, H = W < 620 ? 320 : 400, M = { t: 34, r: 24, b: 48, l: W < 620 ? 46 : 64 }, { sides } = picture, knots = [...sides.a.lines, ...sides.b.lines].flatMap(line => line.knots), all = [...knots, ...sides.a.off, ...sides.b.off];
  if (!all.length) return;
  const x = linear([0, Math.max(...all.map(k => k[0])) * 1.06 || 1], [M.l, W - M.r]), y = linear([0, Math.max(...all.map(k => k[1])) * 1.12 || 1], [H - M.b, M.t]);
  const svg = el('svg', { width: W, height: H, viewBox: `0 0 ${W} ${H}`, class: 'chart', role: 'img', 'aria-label': `${picture.y.label} against ${picture.x.label}: frontiers of A and B. The table below holds the points.` });
  const ticks = y.ticks(5), xs = x.ticks(W < 620 ? 4 : 8), better = picture.y.better === 'higher' ? 1 : -1;
  svg.append(el('defs', {}, el('pattern', { id: 'behind', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, el('line', { x1: 0, x2: 0, y1: 0, y2: 6, stroke: 'var(--bad)', 'stroke-width': 2, opacity: 0.5 }))));
  for (const t of ticks) if (y(t) >= M.t) svg.append(el('line', { x1: M.l, x2: W - M.r, y1: y(t), y2: y(t), class: 'tick' }), el('text', { x: M.l - 10, y: y(t) + 4, 'text-anchor': 'end' }, tickText(t, ticks.at(-1))));
  for (const t of xs) if (x(t) <= W - M.r) svg.append(el('text', { x: x(t), y: H - M.b + 19, 'text-anchor': 'middle' }, tickText(t, xs.at(-1))));
  svg.append(el('line', { x1: M.l, x2: W - M.r, y1: H - M.b, y2: H - M.b, class: 'axis' }), el('text', { x: 12, y: 18, class: 'axis-title' }, picture.y.label, el('tspan', { class: 'axis-unit' }, `  ${picture.y.unit}`)), el('text', { x: W - M.r, y: H - 8, class: 'axis-title', 'text-anchor': 'end' }, picture.x.label, el('tspan', { class: 'axis-unit' }, `  ${picture.x.unit}`)));
  const gaps = [];
  for (const b of sides.b.lines) { const a = sides.a.lines.find(line => line.key === b.key); if (a && a.knots.length > 1 && b.knots.length > 1) shade(a.knots, b.knots); }
  for (const [ax, ay, bx, by] of picture.pairs) svg.append(el('path', { class: 'link-ab', d: `M${x(ax)},${y(ay)}L${x(bx)},${y(by)}` }));
  for (const name of ['a', 'b']) {
    for (const [px, py] of sides[name].off) svg.append(el('path', { class: `mark-${name}`, opacity: 0.4, d: markPath(MARK[name], x(px), y(py), 3) }));
    for (const line of sides[name].lines) {
      svg.append(el('path', { class: `line line-${name}`, 'stroke-dasharray': line.source !== 'measured' ? '0.5 5.5' : null, d: `M${line.knots.map(k => `${x(k[0])},${y(k[1])}`).join('L')}` }));
      for (const k of line.knots) svg.append(el('path', { class: `mark-${name} go`, d: markPath(MARK[name], x(k[0]), y(k[1]), 5), stroke: 'var(--surface)', 'stroke-width': 1.2, onclick: () => location.assign(`/points/${k[2]}`) }));
    }
  }
  for (const sign of [1, -1]) { const gap = gaps.filter(g => Math.sign(g.share) === sign).sort((p, q) => Math.abs(q.share) - Math.abs(p.share))[0]; if (gap && Math.abs(gap.share) >= 0.02) name(gap); }
  host.append(svg);

  function shade(a, b) {
    const from = Math.max(a[0][0], b[0][0]), to = Math.min(a.at(-1)[0], b.at(-1)[0]);
    if (!(to > from)) return;
    const at = [...new Set([from, to, ...a.map(k => k[0]), ...b.map(k => k[0])].filter(v => v >= from && v <= to))].sort((p, q) => p - q), dense = [];
    at.forEach((v, i) => { dense.push(v); if (i + 1 < at.length) { const w = at[i + 1], d0 = reading(b, v) - reading(a, v), d1 = reading(b, w) - reading(a, w); if (d0 * d1 < 0) dense.push(v + ((w - v) * d0) / (d0 - d1)); } });
    for (let i = 1; i < dense.length; i++) {
      const [u, v] = [dense[i - 1], dense[i]], mid = (u + v) / 2, share = better * (reading(b, mid) - reading(a, mid));
      svg.append(el('path', { class: share >= 0 ? 'area-better' : 'area-worse', fill: share >= 0 ? null : 'url(#behind)', d: `M${x(u)},${y(reading(a, u))}L${x(v)},${y(reading(a, v))}L${x(v)},${y(reading(b, v))}L${x(u)},${y(reading(b, u))}Z` }));
      for (const t of [u, v]) if (reading(a, t)) gaps.push({ x: t, a: reading(a, t), b: reading(b, t), share: better * (reading(b, t) / reading(a, t) - 1) });
    }
  }
  function name(gap) {
    const text = `${gap.share > 0 ? '▲' : '▼'} ${gap.share > 0 ? '+' : '−'}${number(Math.abs(100 * gap.share), 1)} % at ${number(+gap.x.toPrecision(3))}`, px = Math.min(x(gap.x) + 8, W - M.r - textWidth(text)), colour = gap.share > 0 ? 'var(--good)' : 'var(--bad)';
    svg.append(el('line', { x1: x(gap.x), x2: x(gap.x), y1: y(gap.a), y2: y(gap.b), stroke: colour, 'stroke-width': 1.6 }), el('text', { x: px, y: Math.max(M.t, Math.min(y(gap.a), y(gap.b)) - 8), class: `halo name gap-${gap.share > 0 ? 'good' : 'bad'}` }, text));
  }
}

if (picture) {
  one('#frontier-about').textContent = picture.subject.join(', ');
  const glyph = (side, cls) => el('svg', { width: 24, height: 14, viewBox: '0 0 24 14', 'aria-hidden': 'true' }, el('path', { d: 'M1,7H23', class: `line ${cls}` }), el('path', { class: `mark-${side}`, d: markPath(MARK[side], 12, 7, 4.4) }));
  const patch = cls => el('svg', { width: 20, height: 12, viewBox: '0 0 20 12', 'aria-hidden': 'true' }, el('path', { class: cls, fill: cls === 'area-worse' ? 'url(#behind)' : null, d: 'M0,0H20V12H0Z' }));
  one('#key')?.append(el('span', {}, glyph('a', 'line-a'), 'A, baseline'), el('span', {}, glyph('b', 'line-b'), 'B, candidate'), el('span', {}, patch('area-better'), '▲ B ahead'), el('span', {}, patch('area-worse'), '▼ B behind'), el('span', {}, 'dotted: the same cell on both sides'));
}
draw();
let settleCompare;
addEventListener('resize', () => { clearTimeout(settleCompare); settleCompare = setTimeout(draw, 80); });
document.fonts?.ready.then(draw);
