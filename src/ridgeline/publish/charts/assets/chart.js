/* The frontier plot. In: a scene (what is drawn) and handlers (what the user does). It decides no membership: which
   points are on a frontier, and in which order, comes with the scene, from the one function that computes frontiers.
   Two steps: `plot()` draws the structure when the question changes; `heat`, `solo` and `pin` only touch classes and a
   thin overlay. */
import { brush } from './brush.js';
import { all, el, number, one, textWidth, tickText, vars } from './dom.js';
import { placeLabels } from './labels.js';
import { markNodes, markPath, seriesInk } from './marks.js';
import { linear, logarithmic, round, stepOf } from './scale.js';

const REACH = 30; // px within which a pointer finds a mark
const LABELS = 7; // direct labels at most

function domain(values, isLog, air) {
  const top = Math.max(...values), low = Math.min(...values);
  if (isLog) return [low * 0.8, top * 1.25];
  return [0, top > 0 ? top * air : 1];
}

/** host: positioned element. scene: {points: [{i, s, x, y, bx, by (ranges), on, degraded}], series, lines: [[i…]…], x, y (axis: label,
    unit, better), logX, logY, limit, box, tip(i) → nodes}. handlers: hover(i), open(i), limit(value, done), box(box). */
export function plot(host, scene, handlers) {
  const W = host.clientWidth - 8, narrow = W < 620, H = narrow ? 380 : Math.max(460, Math.min(540, innerHeight - 330));
  const M = narrow ? { t: 38, r: 14, b: 48, l: 46 } : { t: 40, r: 84, b: 52, l: 64 };
  const right = W - M.r, bottom = H - M.b, { points, series } = scene, byId = new Map(points.map(p => [p.i, p]));
  for (const old of all(':scope > svg', host)) old.remove();
  const svg = el('svg', { width: W, height: H, viewBox: `0 0 ${W} ${H}`, class: 'chart', role: 'presentation' });
  host.prepend(svg);
  const make = (isLog, values, air, range) => (isLog ? logarithmic : linear)(domain(values, isLog, air), range);
  const x = make(scene.logX, points.map(p => p.x), 1.06, [M.l, right]);
  const y = make(scene.logY, points.map(p => p.y), scene.y.better === 'higher' ? 1.12 : 1.06, [bottom, M.t]);
  const at = p => [x(p.x), y(p.y)];
  let limit = scene.limit;

  const shade = scene.x.better && limit != null ? el('rect', { class: 'reach', y: M.t, height: bottom - M.t }) : null;
  if (shade) svg.append(shade);
  axes();
  hint();
  const handle = shade ? limitHandle() : null;
  const groups = new Map();
  const layer = el('g');
  svg.append(layer);
  drawSeries();
  labels();
  const over = el('g', { class: 'over', 'pointer-events': 'none' });
  svg.append(over);
  const tip = one('.tip', host) ?? host.appendChild(el('div', { class: 'tip', 'aria-hidden': 'true' }));
  tip.classList.remove('on');

  function axes() {
    const yTicks = y.ticks(narrow ? 5 : 6), xTicks = x.ticks(narrow ? 4 : 8);
    for (const t of yTicks) {
      if (y(t) > bottom + 0.5 || y(t) < M.t - 0.5) continue;
      svg.append(el('line', { x1: M.l, x2: right, y1: y(t), y2: y(t), class: 'tick' }), el('text', { x: M.l - 10, y: y(t) + 4, 'text-anchor': 'end' }, tickText(t, yTicks.at(-1))));
    }
    svg.append(el('line', { x1: M.l, x2: right, y1: bottom, y2: bottom, class: 'axis' }));
    for (const t of xTicks) {
      if (x(t) > right + 0.5) continue;
      svg.append(el('line', { x1: x(t), x2: x(t), y1: bottom, y2: bottom + 4, class: 'axis' }), el('text', { x: x(t), y: bottom + 19, 'text-anchor': 'middle' }, tickText(t, xTicks.at(-1))));
    }
    svg.append(
      el('text', { x: narrow ? 6 : 12, y: 18, class: 'axis-title' }, scene.y.label, el('tspan', { class: 'axis-unit' }, `  ${scene.y.unit}${scene.logY ? ', log' : ''}`)),
      el('text', { x: right, y: H - 8, class: 'axis-title', 'text-anchor': 'end' }, scene.x.label, el('tspan', { class: 'axis-unit' }, `  ${scene.x.unit}${scene.logX ? ', log' : ''}`)),
    );
  }

  function hint() {
    if (!scene.x.better || !scene.y.better) return;
    const toRight = scene.x.better === 'higher', up = scene.y.better === 'higher';
    const gx = toRight ? right - 10 : M.l + 12, gy = up ? M.t + 14 : bottom - 14, dx = toRight ? 1 : -1, dy = up ? -1 : 1;
    svg.append(
      el('text', { x: gx - dx * 20, y: gy + 4, 'text-anchor': toRight ? 'end' : 'start', class: 'better' }, 'better'),
      el('path', { d: `M${gx - dx * 12},${gy - dy * 5}L${gx},${gy + dy * 6}M${gx - dx * 7},${gy + dy * 6}H${gx}V${gy - dy * 1}`, class: 'better-arrow' }),
    );
  }

  function limitHandle() {
    const [low, high] = [x.invert(M.l), x.invert(right)], sign = scene.x.better === 'higher' ? '≥' : '≤', step = stepOf(high - low);
    const line = el('line', { y1: M.t, y2: bottom, class: 'limit' }), grab = el('line', { y1: M.t, y2: bottom, class: 'grab' });
    const plate = el('rect', { y: M.t - 11, height: 20, rx: 4 }), text = el('text', { y: M.t + 3, 'text-anchor': 'middle' });
    const g = el('g', { class: 'limit-handle', tabindex: 0, role: 'slider', 'aria-label': `${scene.x.label}: ${sign === '≥' ? 'at least' : 'at most'}`, 'aria-orientation': 'horizontal' }, line, grab, plate, text);
    svg.append(g);
    const place = value => {
      limit = Math.min(high, Math.max(0, value));
      const px = Math.min(right, Math.max(M.l, x(Math.max(limit, scene.logX ? low : 0)))), label = `${sign} ${number(limit)}`, w = textWidth(label) + 16;
      for (const l of [line, grab]) { l.setAttribute('x1', px); l.setAttribute('x2', px); }
      const tx = Math.min(right - w / 2, Math.max(M.l + w / 2, px));
      plate.setAttribute('x', tx - w / 2); plate.setAttribute('width', w); text.setAttribute('x', tx); text.textContent = label;
      const [from, to] = scene.x.better === 'higher' ? [px, right] : [M.l, px];
      shade.setAttribute('x', from); shade.setAttribute('width', Math.max(0, to - from));
      g.setAttribute('aria-valuemin', 0); g.setAttribute('aria-valuemax', number(high)); g.setAttribute('aria-valuenow', limit); g.setAttribute('aria-valuetext', `${number(limit)} ${scene.x.unit}`);
    };
    const snap = value => +(Math.round(value / step) * step).toPrecision(8);
    g.addEventListener('pointerdown', event => {
      event.preventDefault(); event.stopPropagation(); g.setPointerCapture(event.pointerId); g.focus({ preventScroll: true });
      const move = e => { place(snap(x.invert(e.clientX - svg.getBoundingClientRect().left))); handlers.limit(limit, false); };
      const stop = () => { g.removeEventListener('pointermove', move); handlers.limit(limit, true); };
      g.addEventListener('pointermove', move); g.addEventListener('pointerup', stop, { once: true }); g.addEventListener('pointercancel', stop, { once: true });
    });
    g.addEventListener('keydown', event => {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      const to = by ? snap(limit + by * step) : { Home: 0, End: high }[event.key];
      if (to === undefined) return;
      event.preventDefault(); event.stopPropagation(); place(to); handlers.limit(limit, false);
    });
    place(limit);
    return { place };
  }

  function drawSeries() {
    const defs = el('defs');
    svg.prepend(defs);
    const [bx, by] = [scene.x.better === 'lower' ? right : M.l, scene.y.better === 'lower' ? M.t : bottom]; // the bad corner
    for (const index of new Set(points.map(p => p.s))) {
      const s = series[index], mine = points.filter(p => p.s === index), line = scene.lines.find(l => byId.get(l[0])?.s === index)?.map(i => byId.get(i)) ?? [];
      const g = el('g', { class: 'series', 'data-s': index }), d = line.length ? `M${line.map(p => at(p).map(v => v.toFixed(1)).join()).join('L')}` : '';
      groups.set(index, { g, line, mine });
      g.append(el('path', { class: 'stairs', fill: `var(--s${s.slot})`, d: line.map(p => { const [px, py] = at(p); const w = px - bx, h = py - by; return `M${bx},${by}h${w}v${h}h${-w}z`; }).join('') }));
      if (s.source !== 'measured') {
        defs.append(el('pattern', { id: `hatch${index}`, width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, el('line', { x1: 0, x2: 0, y1: 0, y2: 5, stroke: `var(--s${s.slot})`, 'stroke-width': 2, opacity: 0.36 })));
        g.append(el('path', { d, class: 'ribbon', stroke: `url(#hatch${index})` }));
      }
      for (const p of mine) if (!p.on) mark(g, p, 3.6);
      g.append(el('path', { d, class: 'line', stroke: `var(--s${s.slot})`, 'stroke-dasharray': s.source !== 'measured' ? '0.5 5.5' : s.overlay ? '5 3' : null }));
      for (const p of line) mark(g, p, 5);
      layer.append(g);
    }
  }

  function mark(parent, p, r) {
    const s = series[p.s], [px, py] = at(p);
    const ring = p.near ? el('path', { d: markPath(s.shape, px, py, r + 2.6), fill: 'none', stroke: `var(--s${s.slot})` }) : null;
    const end = 3, bars = [p.bx && `M${x(p.bx[0])},${py}H${x(p.bx[1])}M${x(p.bx[0])},${py - end}v${2 * end}M${x(p.bx[1])},${py - end}v${2 * end}`, p.by && `M${px},${y(p.by[0])}V${y(p.by[1])}M${px - end},${y(p.by[0])}h${2 * end}M${px - end},${y(p.by[1])}h${2 * end}`].filter(Boolean).join('');
    parent.append(el('g', { class: `pt ${p.on ? 'on' : p.degraded ? 'degraded' : p.near ? 'near' : 'dominated'}`, 'data-i': p.i }, bars ? el('path', { d: bars, class: 'bar', stroke: `var(--s${s.slot})` }) : null, ring, markNodes(s, px, py, p.degraded ? 4.4 : r, { source: s.source, degraded: p.degraded, overlay: s.overlay })));
  }

  /* names beside the lines, with the word for what was not measured; on a narrow plot only that word, once a kind */
  function labels() {
    const said = new Set(), items = [];
    for (const [key, { line, mine }] of groups) {
      const s = series[key], tag = [s.source === 'measured' ? '' : s.source, s.overlay ? 'unofficial' : ''].filter(Boolean).join(', ');
      if (!line.length || (narrow && (!tag || said.has(tag))) || groups.size > LABELS && !tag) continue;
      said.add(tag);
      const name = narrow ? '' : s.name, nameWidth = name ? textWidth(name) + 9 : 0;
      items.push({ key, name, tag, nameWidth, width: nameWidth + (tag ? textWidth(tag, 550) + 12 : 0), line: line.map(at), marks: mine.map(at), pad: tag ? 10 : 3 });
    }
    const walls = [];
    if (shade) for (let t = M.t; t < bottom; t += 6) walls.push([x(limit), t]);
    if (scene.x.better && scene.y.better) for (let t = 0; t < 76; t += 8) walls.push([scene.x.better === 'higher' ? right - t : M.l + t, scene.y.better === 'higher' ? M.t + 14 : bottom - 14]);
    for (const { line, marks } of [...groups.values()].map(g => ({ line: g.line, marks: g.mine }))) walls.push(...(narrow ? [...line, ...marks].map(at) : []));
    for (const spot of placeLabels(items, { left: M.l + 2, right, top: M.t, bottom, edge: W - 4 }, walls)) {
      const { name, tag, nameWidth } = items.find(item => item.key === spot.key), s = series[spot.key], { g } = groups.get(spot.key);
      if (spot.leader) g.append(el('path', { d: spot.leader, class: 'leader', stroke: `var(--s${s.slot})` }));
      if (name) g.append(vars(el('text', { x: spot.x, y: spot.y, class: 'halo name' }, name), { fill: seriesInk(s.slot) }));
      if (tag) g.append(tagNode(tag, s.slot, spot.x + nameWidth, spot.y));
    }
  }

  function tagNode(word, slot, px, py) {
    const w = textWidth(word, 550) + 12;
    return el('g', { class: 'tag' }, el('rect', { x: px, y: py - 13, width: w, height: 18, rx: 4, stroke: `var(--s${slot})` }), vars(el('text', { x: px + 6, y: py }, word), { fill: seriesInk(slot) }));
  }

  function pill(px, py, text, anchor) {
    const w = textWidth(text) + 12, left = anchor === 'end' ? px - w : Math.min(W - w, Math.max(0, px - w / 2));
    return el('g', { class: 'pill' }, el('rect', { x: left, y: py - 9, width: w, height: 18, rx: 3 }), el('text', { x: left + w / 2, y: py + 4, 'text-anchor': 'middle' }, text));
  }

  /** Light one point up: crosshair, value pills, ring, and the glance when `glance`. `null` puts everything out. */
  function heat(i, glance = true) {
    for (const node of all('.pt.hot', svg)) node.classList.remove('hot');
    over.replaceChildren();
    const p = byId.get(i);
    if (!p) { tip.classList.remove('on'); return false; }
    one(`.pt[data-i="${i}"]`, svg)?.classList.add('hot');
    const [px, py] = at(p), s = series[p.s];
    over.append(...ladder(p), el('path', { d: `M${px},${py}V${bottom}M${px},${py}H${M.l}`, class: 'cross' }), pill(px, bottom + 15, number(p.x), 'middle'), pill(M.l - 4, py, number(p.y), 'end'),
      el('path', { d: markPath(s.shape, px, py, 9), class: 'ring', stroke: p.degraded ? 'var(--bad)' : `var(--s${s.slot})` }));
    tip.classList.toggle('on', glance);
    if (!glance) return true;
    tip.replaceChildren(...scene.tip(i));
    const w = tip.offsetWidth, h = tip.offsetHeight, left = px + 18 + w > W - 4 ? px - w - 14 : px + 18;
    vars(tip, { left: `${Math.max(6, left)}px`, top: `${py - h - 12 < 4 ? py + 16 : py - h - 12}px` });
    return true;
  }

  /** The other concurrencies of the point's arm, as a thin thread: how this topology moves under load. */
  function ladder(p) {
    const rungs = scene.ladder(p.i).map(i => byId.get(i)).filter(Boolean);
    return rungs.length < 2 ? [] : [el('path', { class: 'thread', stroke: `var(--s${series[p.s].slot})`, d: `M${rungs.map(q => at(q).join()).join('L')}` })];
  }

  function solo(index) {
    svg.classList.toggle('dim', index != null);
    for (const [key, { g }] of groups) g.classList.toggle('lit', key === index);
  }

  function nearest(event) {
    const box = svg.getBoundingClientRect(), mx = event.clientX - box.left, my = event.clientY - box.top;
    let found = null, reach = REACH;
    for (const p of points) {
      const [px, py] = at(p), distance = Math.hypot(px - mx, py - my) + (p.on ? 0 : 3);
      if (distance < reach) { reach = distance; found = p.i; }
    }
    return found;
  }

  const showBox = brush(svg, { left: M.l, right, top: M.t, bottom }, x, y, handlers.box);
  showBox(scene.box);
  svg.addEventListener('pointermove', event => { if (!event.target.closest('.limit-handle')) handlers.hover(nearest(event)); });
  svg.addEventListener('pointerleave', () => handlers.hover(null));
  svg.addEventListener('click', event => { const i = nearest(event); if (i != null && !event.target.closest('.limit-handle')) handlers.open(i); });
  return { svg, heat, solo, showBox, setLimit: value => handle?.place(value), has: i => byId.has(i), range: [x.invert(M.l), x.invert(right)] };
}

/** A limit that most of the drawn lines reach, at a round number: where the page starts to answer. */
export function firstLimit(lines, better) {
  const reach = lines.map(xs => (better === 'higher' ? Math.max(...xs) : Math.min(...xs))), start = lines.map(xs => (better === 'higher' ? Math.min(...xs) : Math.max(...xs)));
  if (!reach.length) return null;
  const near = better === 'higher' ? Math.min(...reach) : Math.max(...reach), far = better === 'higher' ? Math.max(...start) : Math.min(...start);
  const spanned = better === 'higher' ? far < near : far > near;
  return round(spanned ? far + (near - far) * 0.4 : near, better === 'lower');
}
