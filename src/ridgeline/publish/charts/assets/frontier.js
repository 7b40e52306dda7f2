/* The frontier page: data in, one question, one chart, and everything bound to it. The page holds points and, for the
   asked pair of axes (a report: for every offered pair), the frontier as it was computed; here they are only selected,
   drawn and spoken about.

   Data, as charts/data.py writes it: `models`, `subjects` (what one chart is about), `series` (slot, source, overlay),
   `measures` (words, unit, direction and formula of each), `axes` (offered), `points` with values in the order of
   `keys` and reasons by number, without what most points are (`bars`: lowest and highest of a cell's repeats), `fronts` by `x|y`: `lines`, positions by rising x; `by`, the witness of each point;
   `near`, those within noise. */
import { firstLimit, plot } from './chart.js';
import { all, copy, decimals, el, figureText, figureUnit, number, one, vars } from './dom.js';
import { drawer } from './drawer.js';
import { markNodes, swatch } from './marks.js';
import { stepOf } from './scale.js';
import { closePopover, countNote, formulaCard, sentence } from './sentence.js';
import { box, choice, decode, encode, numeric, subset } from './state.js';
import { download, png, still } from './still.js';
import { light, table } from './table.js';
import { absent, badge, cautionBadge, direction, plural, shortName, sourceBadge, validityBadge, why } from './words.js';

const unique = list => [...new Set(list)];
const KEY = { slot: 'key', shape: 1 }; // the mark that the key below the plot explains states with
const EVERY = 'all', LEVELS = [0.2, 0.4, 0.6, 0.8], ROWS = 300; // rows of the table until all are asked for
/* A series that may lead, be a best or a ratio: measured, and not laid over. */
const counts = s => s.source === 'measured' && !s.overlay;

let options = {}; // {load(question) → data, detail(point) → more of it, fields}: what a served page adds
let data, measures, series, points, byId, fields;
let whole = false, state = {}, notices = [], now = null, chart = null, hot = null; // now: everything that follows from the state

function adopt(raw) {
  data = raw;
  measures = data.measures;
  series = data.series;
  points = data.points.map((p, i) => ({
    facts: [], provenance: [], launch: [], again: '', validity: 'valid', repeats: 1, reasons: [], cautions: [], name: `${p.line}/c${p.c}`, source: series[p.s].source, ...p, i,
    v: Object.fromEntries(data.keys.map((key, k) => [key, p.v[k]]).filter(([, v]) => v != null)),
    why: Object.fromEntries((p.why ?? []).map(([k, r]) => [data.keys[k], data.reasons[r]])),
    bars: Object.fromEntries((p.bars ?? []).map(([k, low, high]) => [data.keys[k], [low, high]])),
  }));
  byId = new Map(points.map(p => [p.id, p]));
  fields = pageFields(data, options.fields);
}

/** The settings of the page, in the order of the address bar. */
export function pageFields(data, more = {}) {
  const ids = new Set(data.points.map(p => p.id));
  return {
    ...more,
    model: choice(data.models, data.models[0] ?? ''),
    on: choice(unique(data.subjects.map(s => s.workload)), null),
    precision: choice([EVERY, ...unique(data.series.map(s => s.precision))], EVERY),
    source: choice([EVERY, 'measured', 'emulated', 'predicted'], EVERY),
    x: choice(data.axes.x, null),
    y: choice(data.axes.y, null),
    log: choice(['x', 'y', 'xy'], ''),
    limit: numeric,
    hide: subset(data.series.map(s => s.key)),
    rows: choice([EVERY, 'frontier'], EVERY),
    box,
    sort: { fallback: 'y:down', parse: text => (/^[\w. %/-]+:(up|down)$/.test(text) ? text : undefined), print: v => v },
    p: { fallback: '', parse: text => (ids.has(text) || data.beyond ? text : undefined), print: v => v },
  };
}

const served = () => Boolean(options.load);
const read = () => { ({ state, notices } = decode(served() ? location.search : location.hash, fields)); };
const address = () => { const text = encode(state, fields); return text ? `${served() ? '?' : '#'}${text}` : location.pathname + (served() ? '' : location.search); };
const save = () => history.replaceState(null, '', address());
/* What is asked of the server: when it changes, the answer is fetched before anything moves. */
const question = () => [state.model, state.on, state.x, state.y].join('\0');
async function set(change) {
  const before = question();
  Object.assign(state, change);
  if (served() && question() !== before) { history.pushState(null, '', address()); await refresh(); } else render();
}
let asked = 0;
async function refresh() {
  const mine = ++asked, card = one('#chart-card'), said = [...notices];
  card.setAttribute('aria-busy', 'true');
  try {
    const raw = await options.load(new URLSearchParams(location.search));
    if (mine !== asked) return;
    adopt(raw);
    read();
    notices = unique([...said, ...notices]);
    failure(null);
    render();
  } catch (error) {
    if (mine === asked) failure(error);
  } finally {
    if (mine === asked) card.removeAttribute('aria-busy');
  }
}
/* The old answer stays, and the page says that it is old. */
function failure(error) {
  const host = one('#failure');
  if (!host) return;
  host.hidden = !error;
  if (error) host.replaceChildren(el('span', {}, el('b', {}, 'No answer from the server. '), `${error.message} What you see is the answer before.`), el('button', { class: 'link-btn', type: 'button', onclick: refresh }, 'Ask again'));
}

/* ── What follows from the state ── */
function derive() {
  const subjects = data.subjects.filter(s => s.model === state.model), subject = subjects.find(s => s.workload === state.on) ?? subjects[0];
  const x = state.x ?? subject?.x ?? data.axes.x[0], y = state.y ?? subject?.y ?? data.axes.y[0];
  const wanted = points.filter(p => data.subjects[p.subject] === subject && (state.precision === EVERY || series[p.s].precision === state.precision) && (state.source === EVERY || p.source === state.source));
  const front = data.fronts[`${x}|${y}`] ?? { lines: [], by: [], near: [] }, on = new Set(front.lines.flat()), close = new Set(front.near);
  const present = unique(wanted.map(p => p.s)).sort((a, b) => a - b);
  for (const p of wanted) {
    p.state = p.validity === 'invalid' || p.v[x] == null || p.v[y] == null ? 'missing' : p.validity === 'degraded' ? 'degraded' : on.has(p.i) ? 'on' : close.has(p.i) ? 'near' : 'dominated';
  }
  now = now ?? {};
  const usual = quiet(present, wanted, front, x, y), order = now.order;
  const hidden = new Set(state.hide == null ? usual : present.filter(s => state.hide.includes(series[s].key)));
  const logX = state.log.includes('x'), logY = state.log.includes('y'), drops = p => (logX && p.v[x] <= 0) || (logY && p.v[y] <= 0);
  const placed = wanted.filter(p => p.state !== 'missing'), dropped = placed.filter(drops), shown = placed.filter(p => !drops(p) && !hidden.has(p.s));
  const seen = new Set(shown.map(p => p.i)), lines = front.lines.map(line => line.filter(i => seen.has(i))).filter(line => line.length);
  now = { order, usual, subjects, subject, x, y, wanted, front, present, hidden, placed, dropped, shown, lines, logX, logY, byLine: new Map() };
  now.limit = measures[x]?.better ? state.limit ?? firstLimit((lines.some(line => measuredLine(line)) ? lines.filter(measuredLine) : lines).map(line => line.map(i => points[i].v[x])), measures[x].better) : null;
}
const measuredLine = line => counts(series[points[line[0]].s]);
/* At first: the four measured series that give most over the field, and one more that is not measured; a line of fewer
   than three points comes after those that show a course, and a series without a point on these axes is no help. */
function quiet(present, wanted, front, x, y) {
  const have = new Set(wanted.filter(p => p.state !== 'missing').map(p => p.s)), official = present.filter(s => !series[s].overlay);
  const lines = front.lines.filter(line => have.has(points[line[0]].s)), up = measures[x]?.better !== 'lower', down = measures[y]?.better === 'lower';
  const xs = lines.flat().map(i => points[i].v[x]).sort((a, b) => a - b), strength = new Map(lines.map(line => [points[line[0]].s, line.length < 3 ? -LEVELS.length : 0]));
  for (const level of LEVELS) { // at each, the share of the best that a series gives
    const at = xs[Math.floor(level * (xs.length - 1))], bests = lines.map(line => { const ys = line.filter(i => (up ? points[i].v[x] >= at : points[i].v[x] <= at)).map(i => points[i].v[y]); return ys.length ? (down ? Math.min(...ys) : Math.max(...ys)) : null; });
    const got = bests.filter(v => v > 0), top = got.length ? (down ? Math.min(...got) : Math.max(...got)) : 0;
    lines.forEach((line, k) => { if (bests[k] > 0) { const s = points[line[0]].s; strength.set(s, strength.get(s) + (down ? top / bests[k] : bests[k] / top)); } });
  }
  const ranked = list => list.filter(s => have.has(s)).sort((a, b) => (strength.get(b) ?? -Infinity) - (strength.get(a) ?? -Infinity) || a - b);
  const measured = ranked(official.filter(s => counts(series[s]))), others = ranked(official.filter(s => !counts(series[s])));
  now.order = [...measured, ...others, ...present.filter(s => !have.has(s) || series[s].overlay)].filter((s, i, all) => all.indexOf(s) === i);
  const shown = new Set([...measured.slice(0, 4), ...others.slice(0, measured.length ? 1 : 4), ...present.filter(s => series[s].overlay)]);
  return present.filter(s => !shown.has(s) && have.has(s));
}
const ladderOf = p => points.filter(q => q.line === p.line && q.s === p.s).sort((a, b) => a.c - b.c || a.i - b.i);
const witness = p => (now.front.by[p.i] >= 0 ? { point: points[now.front.by[p.i]], near: p.state === 'near' } : null);
/* The best drawn frontier point of a series inside the limit: a point that was run, never a value between two. */
function bestOf(s) {
  const { x, y, limit } = now, ok = v => limit == null || (measures[x].better === 'higher' ? v >= limit : v <= limit), sign = measures[y].better === 'lower' ? 1 : -1;
  return (now.front.lines.find(line => points[line[0]].s === s && data.subjects[points[line[0]].subject] === now.subject) ?? []).map(i => points[i]).filter(p => ok(p.v[x])).sort((a, b) => sign * (a.v[y] - b.v[y]))[0] ?? null;
}

/* ── The question ── */
function ask() {
  if (!points.length) return one('#question').replaceChildren(served() ? 'No point here yet.' : 'This run has no point yet.');
  const axis = (name, list) => ({
    name, title: name === 'x' ? 'Horizontal axis' : 'Vertical axis', text: measures[now[name]]?.said ?? 'nothing', current: now[name],
    options: list.map(key => {
      const all = now.wanted.filter(p => p.validity !== 'invalid'), m = measures[key], there = data.have, have = there ? there[key] : all.filter(p => p.v[key] != null).length;
      return { id: key, name: m.label, direction: direction(m.better), disabled: !have, note: have ? countNote(have, there ? now.subject.n : all.length) : all.length ? why(all[0], key) : 'no points', card: formulaCard(m) };
    }),
    pick: key => set({ [name]: key === now.subject[name] ? null : key, box: null, ...(name === 'x' ? { limit: null } : {}) }),
  });
  const count = list => countNote(list.length, list.length), sum = list => { const n = list.reduce((total, s) => total + s.n, 0); return countNote(n, n); };
  const sources = unique(points.filter(p => data.subjects[p.subject] === now.subject).map(p => p.source));
  const precisions = unique(points.filter(p => data.subjects[p.subject] === now.subject).map(p => series[p.s].precision));
  const parts = ['Show ', axis('y', data.axes.y), ' against ', axis('x', data.axes.x), ' for ',
    { name: 'model', title: 'Model', text: state.model || 'no model', current: state.model, options: data.models.map(id => ({ id, name: id, note: sum(data.subjects.filter(s => s.model === id)) })), pick: model => set({ model, on: null, x: null, y: null, limit: null, box: null, hide: null, precision: EVERY, p: '' }) }, ' on ',
    { name: 'on', title: 'Workload', text: now.subject?.said ?? 'no workload', current: now.subject?.workload, options: now.subjects.map(s => ({ id: s.workload, name: s.said, note: sum([s]) })), pick: on => set({ on: on === now.subjects[0].workload ? null : on, x: null, y: null, limit: null, box: null, hide: null, p: '' }) }, ' at ',
    { name: 'precision', title: 'Precision', text: state.precision === EVERY ? (precisions.length === 1 ? precisions[0].toUpperCase() : 'every precision') : state.precision.toUpperCase(), current: state.precision, options: precisions.length < 2 ? [] : [EVERY, ...precisions].map(id => ({ id, name: id === EVERY ? 'every precision' : id.toUpperCase() })), pick: precision => set({ precision }) }, ', from ',
    { name: 'source', title: 'Source', text: `${(state.source === EVERY ? sources : [state.source]).join(' + ')} points`, current: state.source, options: sources.length < 2 ? [] : [EVERY, ...sources].map(id => ({ id, name: id === EVERY ? `${sources.join(' + ')}` : `${id} only`, note: id === EVERY ? 'Each in its own series; what is not measured never enters a best' : count(points.filter(p => p.source === id && data.subjects[p.subject] === now.subject)) })), pick: source => set({ source }) }, '.'];
  return sentence(one('#question'), parts);
}

/* ── The answer: one sentence, from measured points; where there are none it says so. While nobody has chosen series, it
   speaks of all of them, drawn or not; who hides one is answered without it, and told. ── */
function answer() {
  const host = one('#answer'), { x, y, limit, present, hidden } = now, mx = measures[x], my = measures[y];
  if (!mx || !my) return host.replaceChildren(points.length ? 'No point here has both a throughput and a latency.' : '');
  const at = limit == null ? '' : `At ${number(limit)} ${mx.unit} of ${mx.said} or ${mx.better === 'higher' ? 'more' : 'less'}, `;
  const visible = present.filter(s => !hidden.has(s)), drawn = visible.filter(s => counts(series[s])), measured = state.hide == null ? present.filter(s => counts(series[s])) : drawn, pool = measured.length ? measured : visible;
  const sign = my.better === 'lower' ? 1 : -1, got = pool.map(s => ({ s, p: bestOf(s) })).filter(g => g.p).sort((a, b) => sign * (a.p.v[y] - b.p.v[y]));
  const lead = got[0], kinds = unique(pool.map(s => series[s].source)).join(' and ');
  if (!visible.length) return host.replaceChildren(present.length ? 'Every series is hidden. Show one in the list.' : 'No point of this run fits the question.');
  const figure = g => [el('b', {}, series[g.s].name), ' ', measured.length ? 'leads: ' : 'comes highest: ', el('b', {}, `${number(g.p.v[y])} ${my.unit}`), ` with ${g.p.arm} at concurrency ${number(g.p.c)}.`];
  const words = my.better === 'lower' ? [el('b', {}, lead ? series[lead.s].name : ''), ' ', measured.length ? 'leads: ' : 'comes lowest: ', lead ? el('b', {}, `${number(lead.p.v[y])} ${my.unit}`) : '', lead ? ` with ${lead.p.arm} at concurrency ${number(lead.p.c)}.` : ''] : lead ? figure(lead) : [];
  if (!measured.length) {
    const out = [el('span', {}, `No ${present.some(s => counts(series[s])) ? 'visible ' : ''}point here is measured${visible.some(s => series[s].overlay) ? ' and official' : ''}. `)];
    out.push(...(lead ? [badge(kinds, 'hatch'), ` ${at ? at[0].toLowerCase() + at.slice(1) : ''}`, words] : [`No ${kinds} point reaches ${number(limit ?? 0)} ${mx.unit}.`]));
    return host.replaceChildren(...out.flat());
  }
  if (!lead) return host.replaceChildren(`No ${state.hide == null ? '' : 'visible '}measured point reaches ${number(limit ?? 0)} ${mx.unit} of ${mx.said}. Move the limit${state.hide == null ? '' : ' or show more series'}.`);
  if (hidden.has(lead.s)) words.push(' It is not drawn: ', el('button', { class: 'link-btn', type: 'button', onclick: () => set({ hide: present.filter(s => hidden.has(s) && s !== lead.s).map(s => series[s].key) }) }, 'show it'), '.');
  const better = state.hide != null ? present.filter(s => hidden.has(s) && counts(series[s])).map(s => ({ s, p: bestOf(s) })).filter(g => g.p && sign * (g.p.v[y] - lead.p.v[y]) < 0).sort((a, b) => sign * (a.p.v[y] - b.p.v[y]))[0] : null;
  const rest = got.slice(1).filter(g => !hidden.has(g.s)).map(g => `${series[g.s].name} ${(g.p.v[y] / lead.p.v[y]).toFixed(2)}×`), short = drawn.filter(s => !got.some(g => g.s === s)).length;
  return host.replaceChildren(...[at, ...words, rest.length ? ` Against it: ${rest.slice(0, 4).join(', ')}${rest.length > 4 ? ` and ${rest.length - 4} behind those` : ''}.` : '', short ? ` ${number(short)} more do${short === 1 ? 'es' : ''} not get there.` : '', better ? [' Hidden and ahead: ', el('b', {}, series[better.s].name), ` with ${number(better.p.v[y])}.`] : ''].flat());
}

/* ── The plot ── */
function draw() {
  const { x, y, shown, lines } = now, host = one('#plot');
  const empty = one('#empty');
  document.body.classList.toggle('blank', !points.length);
  empty.hidden = shown.length > 0;
  host.hidden = !shown.length;
  if (!shown.length) {
    chart = null;
    if (!points.length && served()) return empty.replaceChildren(el('p', {}, el('b', {}, 'No cell of this channel has finished.')), el('p', { class: 'muted' }, data.absent.length ? 'The strip below says why each one failed.' : ['A run appears here while it goes on. Without a GPU: ', el('code', {}, 'ridgeline sweep benchmarks/quickstart.yaml')]));
    if (!points.length) return empty.replaceChildren(el('p', {}, el('b', {}, 'No cell of this run has finished.')), el('p', { class: 'muted' }, data.absent.length ? 'The strip below says why each one failed. What runs next is a start of the same command: finished cells are kept, failed ones are tried again.' : 'Nothing was stored yet. Write the report again when the first cell is done.'));
    empty.replaceChildren(el('p', {}, el('b', {}, now.placed.length ? 'Every series with a point is hidden.' : 'Nothing to plot on these axes.')), el('p', { class: 'muted' }, now.placed.length ? 'Show a series in the list, or ' : 'The strip below says why each point is left out.'),
      now.placed.length ? el('button', { class: 'btn', type: 'button', onclick: () => set({ hide: [] }) }, 'Show every series') : '');
    return undefined;
  }
  chart = plot(host, {
    points: shown.map(p => ({ i: p.i, s: p.s, x: p.v[x], y: p.v[y], bx: p.bars[x], by: p.bars[y], on: p.state === 'on', near: p.state === 'near', degraded: p.state === 'degraded' })).sort((a, b) => a.x - b.x),
    series, lines, x: measures[x], y: measures[y], logX: now.logX, logY: now.logY, limit: now.limit, box: state.box, tip: tipOf, ladder: i => ladderOf(points[i]).map(p => p.i),
  }, {
    hover: i => { if (i !== hot) heat(i ?? pinned()); },
    open: i => openPoint(points[i]),
    box: b => { state.box = box.parse(box.print(b)) ?? null; whole = false; save(); rows(); },
    limit: (v, done) => { state.limit = v; now.limit = v; save(); answer(); list(); if (done) heat(pinned()); },
  });
  for (const button of all('[data-log]')) button.setAttribute('aria-pressed', String(state.log.includes(button.dataset.log)));
  return undefined;
}
const pinned = () => (state.p ? byId.get(state.p)?.i ?? null : null);

function tipOf(i) {
  const p = points[i], s = series[p.s], by = witness(p), { x, y } = now;
  const place = p.state === 'degraded' ? 'degraded: never on it' : p.state === 'on' ? 'on it' : by ? `${by.near ? 'within noise of' : 'behind'} ${shortName(by.point)}` : 'not on it';
  return [el('h3', {}, swatch(s), `${s.name} · ${shortName(p)}`),
    el('dl', {}, el('dt', {}, measures[y].name), el('dd', {}, `${number(p.v[y])} ${measures[y].unit}`), el('dt', {}, measures[x].name), el('dd', {}, `${number(p.v[x])} ${measures[x].unit}`), el('dt', {}, 'Frontier'), el('dd', {}, place)),
    p.source !== 'measured' || p.validity !== 'valid' || p.cautions.length ? el('p', { class: 'badges' }, p.source === 'measured' ? null : sourceBadge(p.source), validityBadge(p), cautionBadge(p)) : null, series[p.s].overlay ? el('p', { class: 'badges' }, badge(`unofficial: ${series[p.s].overlay}`, 'outline')) : null].filter(Boolean);
}

function heat(i, from) {
  hot = i;
  light(one('#points'), i, from === 'keys' || from === 'plot');
  if (!chart) return;
  if (i == null) { chart.heat(null); return; }
  chart.heat(i, !(state.p && points[i].id === state.p && from !== 'keys'));
  if (from === 'keys') {
    const p = points[i], { x, y } = now;
    one('#spoken').textContent = `${series[p.s].name}, ${p.arm}, concurrency ${p.c}. ${measures[x].name} ${number(p.v[x])} ${measures[x].unit}, ${measures[y].name} ${number(p.v[y])} ${measures[y].unit}. ${{ on: 'On the frontier', near: 'Within noise of the frontier', degraded: 'Degraded', dominated: 'Dominated' }[p.state]}. ${p.source}.`;
  }
}

function walk(event) {
  const order = [...now.shown].sort((a, b) => a.v[now.x] - b.v[now.x]), k = order.findIndex(p => p.i === hot);
  const lanes = unique(order.map(p => p.s)).sort((a, b) => a - b), here = order[k];
  const across = by => { const s = lanes[(lanes.indexOf(here?.s) + by + lanes.length) % lanes.length], x0 = here?.v[now.x] ?? 0; return order.filter(p => p.s === s).sort((a, b) => Math.abs(a.v[now.x] - x0) - Math.abs(b.v[now.x] - x0))[0]; };
  const to = { ArrowRight: () => order[Math.min(order.length - 1, k + 1)], ArrowLeft: () => order[k < 0 ? order.length - 1 : Math.max(0, k - 1)], Home: () => order[0], End: () => order.at(-1), ArrowDown: () => across(1), ArrowUp: () => across(-1) }[event.key]?.();
  if (to) { event.preventDefault(); if (state.p) openPoint(to, true); heat(to.i, 'keys'); }
  if (event.key === 'Enter' && hot != null) { event.preventDefault(); openPoint(points[hot]); }
}

/* ── Series list ── */
function list() {
  if (!measures[now.y]) return;
  const host = one('#series'), { x, y, present, hidden, limit } = now, my = measures[y], top = present.filter(s => counts(series[s]) && !hidden.has(s)).map(s => bestOf(s)?.v[y]).filter(v => v != null);
  const best = top.length ? (my.better === 'lower' ? Math.min(...top) : Math.max(...top)) : null, focused = document.activeElement?.dataset?.s;
  const words = one('#series-filter')?.value.toLowerCase().split(/\s+/) ?? [];
  host.replaceChildren(...now.order.filter(s => words.every(word => `${series[s].name} ${series[s].source}`.toLowerCase().includes(word))).map(s => {
    const one = series[s], mine = now.placed.filter(p => p.s === s), on = mine.filter(p => p.state === 'on').length, b = bestOf(s), off = hidden.has(s), emulated = !counts(one), kind = [one.source === 'measured' ? '' : one.source, one.overlay ? `unofficial: ${one.overlay}` : ''].filter(Boolean).join(', ');
    const meter = el('div', { class: 'meter' }, b && best && !off && !emulated ? vars(el('i'), { width: `${Math.min(100, 100 * (my.better === 'lower' ? best / b.v[y] : b.v[y] / best))}%`, background: `var(--s${one.slot})` }) : null);
    const row = el('button', { class: `srow ${one.source !== 'measured' ? 'unmeasured' : one.overlay ? 'overlaid' : ''}`, type: 'button', 'data-s': s, 'aria-pressed': String(!off), title: one.key }, swatch(one, off),
      el('span', { class: 'who' }, el('span', { class: 'name' }, one.name), el('span', { class: 'sub' }, emulated ? [el('b', {}, kind), ' · '] : null, mine.length ? `${on} of ${number(mine.length)} on frontier` : 'nothing to plot')),
      el('span', { class: 'val' }, b ? [number(b.v[y]), el('small', {}, shortName(b))] : [el('span', { class: 'faint' }, 'none'), el('small', {}, mine.length ? 'does not reach it' : 'see below')]), emulated ? null : meter);
    row.addEventListener('click', event => {
      const next = new Set(hidden);
      if (event.detail === 2) for (const other of present) { if (other === s) next.delete(other); else next.add(other); }
      else if (next.has(s)) next.delete(s); else next.add(s);
      const usual = new Set(now.usual), same = usual.size === next.size && [...usual].every(k => next.has(k));
      set({ hide: same ? null : [...next].map(k => series[k].key) });
    });
    for (const type of ['mouseenter', 'focus']) row.addEventListener(type, () => { if (!hidden.has(s)) chart?.solo(s); });
    for (const type of ['mouseleave', 'blur']) row.addEventListener(type, () => chart?.solo(null));
    return row;
  }));
  if (focused != null) one(`[data-s="${focused}"]`, host)?.focus({ preventScroll: true });
  const control = one('#limit');
  control.hidden = limit == null;
  if (limit != null) { one('#limit-sign').textContent = `best ${measures[x].better === 'higher' ? '≥' : '≤'}`; const field = one('#limit-value'); if (document.activeElement !== field) field.value = number(limit).replaceAll(',', ''); one('#limit-unit').textContent = measures[x].unit; }
  one('#show-all').hidden = !hidden.size;
  one('#series-find').hidden = present.length <= 10;
}

/* ── What is not plotted, and why ── */
function strip() {
  const host = one('#left-out'), { x, y } = now, groups = new Map();
  const add = (code, what, reason) => { const key = `${code}\0${what}\0${reason}`; const group = groups.get(key) ?? { code, what, reason, n: 0, names: [] }; group.n += 1; groups.set(key, group); return group; };
  for (const p of now.wanted) {
    if (p.validity === 'invalid') add('invalid', series[p.s].name, p.reasons.join(' ') || 'no reason was recorded').names.push(shortName(p));
    else if (p.state === 'missing') { const key = p.v[y] == null ? y : x; add('no value', series[p.s].name, `${measures[key].label}: ${why(p, key)}`).names.push(shortName(p)); }
  }
  for (const p of now.dropped) add('zero', series[p.s].name, 'A logarithmic axis has no place for zero. Switch to linear to see it.').names.push(shortName(p));
  for (const gone of data.absent) if (gone.subject == null || data.subjects[gone.subject] === now.subject) add(gone.code, gone.what, gone.reason).names.push(gone.name);
  if (data.thinned && now.subject) groups.set('thinned', { code: 'thinned', what: 'Behind the frontier', reason: `Too many to draw: of the dominated points one is drawn for each spot of the plot. Every frontier point is drawn. Exports hold all of them.`, n: data.thinned, names: [] });
  const list = [...groups.values()], total = list.reduce((n, g) => n + g.n, 0), byCode = new Map();
  for (const g of list) byCode.set(g.code, (byCode.get(g.code) ?? 0) + g.n);
  host.hidden = !total;
  one('summary', host).replaceChildren(el('span', {}, el('b', {}, `${number(total)} not plotted: `), [...byCode].map(([code, n]) => (code === 'no value' ? `${n} without a value on these axes` : code === 'thinned' ? `${number(n)} dominated ones behind other marks` : code === 'zero' ? `${n} at zero on a logarithmic axis` : `${n} ${code}`)).join(', ')));
  one('ul', host).replaceChildren(...list.map(g => el('li', {}, badge(`${{ failed: '✕ ', invalid: '✕ ' }[g.code] ?? ''}${g.code}`, ''), el('span', {}, el('b', {}, g.what), el('span', { class: 'names' }, g.names.length > 6 ? `${g.names.slice(0, 5).join(', ')} and ${g.names.length - 5} more` : g.names.join(', '))), el('span', {}, g.reason))));
}

/* ── The key: only forms that occur ── */
function key() {
  const { shown } = now, has = test => shown.some(test), glyph = (...nodes) => el('svg', { width: 24, height: 14, viewBox: '0 0 24 14', 'aria-hidden': 'true' }, nodes);
  const line = dash => el('path', { d: 'M1,7H23', class: 'key-line', 'stroke-dasharray': dash }), dot = options => markNodes(KEY, 12, 7, 4.4, options);
  const items = [has(p => p.state === 'on' && counts(series[p.s])) && [glyph(line(null), dot({})), 'on the frontier'],
    has(p => series[p.s].overlay) && [glyph(line('5 3'), dot({ overlay: 'x' })), 'unofficial run'],
    has(p => p.source === 'emulated') && [glyph(line('0.5 4.5'), dot({ source: 'emulated' })), 'emulated'],
    has(p => p.source === 'predicted') && [glyph(line('0.5 4.5'), dot({ source: 'predicted' })), 'predicted'],
    has(p => p.state === 'near') && [glyph(el('path', { class: 'key-ring', d: 'M6,7a6,6 0 1 0 12,0a6,6 0 1 0-12,0Z' }), markNodes(KEY, 12, 7, 3.4)), 'within noise of it'],
    has(p => p.state === 'dominated') && [glyph(el('g', { class: 'pt dominated' }, markNodes(KEY, 12, 7, 3.6))), 'dominated'],
    has(p => p.state === 'degraded') && [glyph(markNodes(KEY, 12, 7, 4, { degraded: true })), 'degraded, not joined']].filter(Boolean);
  one('#key').replaceChildren(...items.map(([mark, text]) => el('span', {}, mark, text)));
}

/* ── Table ── */
function columns() {
  if (!measures[now.x] || !measures[now.y]) return [{ key: 'series', name: 'Series', class: 'first', sort: p => p.name, cell: p => p.name }];
  const { x, y } = now, extra = data.columns.filter(k => k !== x && k !== y && now.shown.some(p => p.v[k] != null)).slice(0, 3), rank = { on: 0, near: 1, dominated: 2, degraded: 3, missing: 4 };
  const measure = (key, cls) => {
    const m = measures[key], digits = m.unit === 'ratio' ? 1 : decimals(now.shown.map(p => p.v[key]).filter(v => v != null));
    return { key, name: m.name, unit: [m.stat, figureUnit(m)].filter(Boolean).join(', '), class: cls, sort: p => p.v[key], cell: p => (p.v[key] == null ? absent(p, key) : figureText(p.v[key], m, digits)) };
  };
  return [
    { key: 'series', name: 'Series', class: 'first', sort: p => series[p.s].name, cell: p => el('span', { class: 's' }, swatch(series[p.s]), el('span', {}, series[p.s].name, el('small', { class: 'narrow-only' }, shortName(p)))) },
    { key: 'arm', name: 'Arm', class: 'mono wide-col clip', sort: p => p.arm, cell: p => el('span', { title: p.arm }, p.arm) },
    { key: 'c', name: 'Conc.', class: 'num wide-col', sort: p => p.c, cell: p => number(p.c) },
    { ...measure(x, 'num'), key: 'x' }, { ...measure(y, 'num'), key: 'y' }, ...extra.map(k => measure(k, 'num wide-col opt')),
    { key: 'gpus', name: 'GPUs', class: 'num wide-col opt', sort: p => p.gpus, cell: p => number(p.gpus) },
    { key: 'front', name: 'Frontier', class: 'wide-col clip', sort: p => rank[p.state], cell: p => { const by = witness(p); return p.state === 'on' ? badge('on frontier', 'accent') : p.state === 'near' ? badge(`≈ ${shortName(by.point)}`) : by ? el('span', { class: 'faint' }, `behind ${shortName(by.point)}`) : el('span', { class: 'faint' }, p.state === 'degraded' ? 'never' : ''); } },
    { key: 'state', name: 'State', class: 'wide-col', sort: p => `${p.source} ${p.validity} ${p.cautions.length}`, cell: p => el('span', { class: 'badges' }, sourceBadge(p.source), series[p.s].overlay ? badge('unofficial', 'outline', series[p.s].overlay) : null, validityBadge(p), cautionBadge(p)) },
  ];
}
const within = p => !state.box || ['x', 'y'].every(a => p.v[now[a]] >= state.box[a][0] && p.v[now[a]] <= state.box[a][1]);
function rows() {
  const [key, way] = state.sort.split(':'), cols = columns(), list = now.shown.filter(p => (state.rows === EVERY || p.state === 'on') && within(p));
  const long = list.length > ROWS && !whole;
  table(one('#points'), cols, list, { key, down: way === 'down' }, pinned(), {
    sort: k => { const down = key === k ? way !== 'down' : true; state.sort = `${k}:${down ? 'down' : 'up'}`; save(); rows(); },
    hover: i => heat(i ?? pinned(), 'table'),
    open: i => openPoint(points[i]),
  }, long ? ROWS : Infinity);
  one('#more-rows').hidden = !long;
  one('#more-rows button').textContent = `Show all ${number(list.length)} rows`;
  one('#count').textContent = `${number(list.length)} of ${number(data.thinned ? now.subject.n : now.wanted.length)}`;
  for (const button of all('[data-rows]')) button.setAttribute('aria-pressed', String(button.dataset.rows === state.rows));
  one('#unbox').hidden = !state.box;
}

/* ── Drawer ── */
let returnTo = null;
function openPoint(p, keepFocus = false) {
  const was = document.body.classList.contains('drawer-open'), host = one('#drawer');
  if (p && !was) returnTo = document.activeElement === document.body ? one('#plot') : document.activeElement;
  state.p = p ? p.id : '';
  save();
  document.body.classList.toggle('drawer-open', Boolean(p));
  for (const row of all('#points tr')) row.classList.toggle('open', Boolean(p) && row.dataset.i === String(p.i));
  if (Boolean(p) !== was && innerWidth > 1180) { draw(); key(); }
  if (!p) { heat(null); if (was) { const i = returnTo?.dataset?.i; ((i != null && one(`#points tr[data-i="${i}"]`)) || (returnTo?.isConnected ? returnTo : one('#plot'))).focus({ preventScroll: true }); } return; }
  const ladder = ladderOf(p), k = ladder.indexOf(p);
  const beside = ladder[k - 1] ?? ladder[k + 1] ?? null; // the recipe is told against its neighbour's
  if (options.detail && !p.full) { p.full = 'asked'; Promise.all([options.detail(p), beside && !beside.facts.length ? options.detail(beside).catch(() => null) : null]).then(([more, other]) => { if (other) beside.facts = other.point.facts; Object.assign(p, more.point, { full: 'here', repeats: p.repeats, v: { ...more.point.v, ...p.v }, why: { ...more.point.why, ...p.why } }); measures = data.measures = { ...more.measures, ...measures }; if (state.p === p.id) openPoint(p, true); }, error => { p.full = null; p.failed = error.message; if (state.p === p.id) draw0(); }); }
  const draw0 = () => drawer(host, p, { waiting: p.full === 'asked', deeper: options.deeper?.(p), series: series[p.s], measures, headline: data.headline.filter(h => h in p.v || h in p.why), x: now.x, y: now.y, ladder, by: witness(p), neighbour: beside, run: data.run }, { go: q => openPoint(q, false), close: () => openPoint(null) });
  draw0();
  if (!keepFocus) one('h2', host).focus({ preventScroll: true });
  heat(p.i, 'drawer');
}

/* ── Notices: what the link asked for and this page does not have ── */
function tell() {
  const host = one('#notice');
  host.hidden = !notices.length;
  if (notices.length) host.replaceChildren(el('span', {}, el('b', {}, 'Left out of the link: '), `${notices.join('; ')}.`), el('button', { class: 'link-btn', type: 'button', onclick: () => { notices = []; tell(); } }, 'Dismiss'));
}

/* ── The picture, as a file ── */
async function picture(kind) {
  const kinds = unique(now.shown.map(p => p.source)).filter(source => source !== 'measured'), laid = unique(now.shown.map(p => series[p.s].overlay).filter(Boolean));
  const sub = [`${state.model} on ${now.subject.said}`, kinds.length ? `${kinds.join(' and ')} points: no GPU took part` : 'measured points', laid.length ? `unofficial: ${laid.join(', ')}` : ''].filter(Boolean).join(' · ');
  const svg = still(chart.svg, unique(now.shown.map(p => p.s)).map(s => series[s]), { title: `${measures[now.y].label} against ${measures[now.x].said}`, sub, foot: [`Ridgeline${data.version ? `, data ${data.version}` : ''}`, served() ? location.href : data.run.name].filter(Boolean).join(' · ') });
  const name = `${state.model}-${now.y}-${now.x}`.replace(/[^\w.-]+/g, '-');
  download(kind === 'png' ? await png(svg) : new Blob([svg], { type: 'image/svg+xml' }), `${name}.${kind}`);
}

function csv() {
  const cell = v => { const text = v == null ? '' : typeof v === 'string' && /^[=+\-@\t\r]/.test(v) ? `'${v}` : String(v); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const names = ['series', 'source', 'unofficial_run', 'validity', 'arm', 'concurrency', 'gpus', now.x, now.y, ...data.columns.filter(k => k !== now.x && k !== now.y), 'frontier', 'id'];
  const lines = now.shown.map(p => [series[p.s].key, p.source, series[p.s].overlay ?? '', p.validity, p.arm, p.c, p.gpus, p.v[now.x], p.v[now.y], ...data.columns.filter(k => k !== now.x && k !== now.y).map(k => p.v[k]), p.state === 'on' ? 'yes' : 'no', p.id]);
  return [names, ...lines].map(row => row.map(cell).join(',')).join('\n');
}

function render() {
  derive(); save(); tell(); ask(); answer(); draw(); key(); list(); strip(); rows();
  const p = byId.get(state.p);
  if (p && now.wanted.includes(p)) openPoint(p, true); else if (document.body.classList.contains('drawer-open')) openPoint(null); else heat(null);
}

/** Start the page. `raw`: its data; `more`: see `options`. */
export function frontierPage(raw, more = {}) {
  options = more;
  adopt(raw);
  read();
  document.body.classList.remove('static'); // the plain page shows what needs no script only
  one('#plot').addEventListener('keydown', walk);
  one('#plot').addEventListener('blur', () => heat(pinned()));
  one('#show-all').addEventListener('click', () => set({ hide: [] }));
  one('#csv').addEventListener('click', () => copy(csv(), 'CSV of the plotted points'));
  for (const button of all('[data-picture]')) button.addEventListener('click', () => { if (chart) picture(button.dataset.picture); });
  one('#unbox').addEventListener('click', () => { state.box = null; chart?.showBox(null); save(); rows(); });
  for (const button of all('[data-rows]')) button.addEventListener('click', () => { state.rows = button.dataset.rows; save(); rows(); });
  for (const button of all('[data-log]')) button.addEventListener('click', () => set({ log: ['x', 'y'].filter(a => (a === button.dataset.log) !== state.log.includes(a)).join('') }));
  for (const button of all('[data-step]')) button.addEventListener('click', () => { const step = chart ? stepOf(chart.range[1] - chart.range[0]) : 1; const v = Math.max(0, +(now.limit + Number(button.dataset.step) * step).toPrecision(8)); state.limit = v; now.limit = v; save(); chart?.setLimit(v); answer(); list(); });
  one('#limit-value').addEventListener('change', event => { const v = numeric.parse(event.target.value); if (v === undefined) { event.target.value = number(now.limit); return; } state.limit = now.limit = v; save(); chart?.setLimit(v); answer(); list(); });
  one('#more-rows button').addEventListener('click', () => { whole = true; rows(); });
  one('#series-filter').addEventListener('input', list);
  for (const button of all('[data-copy]')) button.addEventListener('click', () => copy(data.run.commands[Number(button.dataset.copy)].text, data.run.commands[Number(button.dataset.copy)].label));
  document.addEventListener('keydown', event => { if (event.key === 'Escape' && state.p) openPoint(null); });
  addEventListener('scroll', () => one('.query').classList.toggle('stuck', scrollY > 56), { passive: true });
  addEventListener(served() ? 'popstate' : 'hashchange', () => { closePopover(); const before = question(); read(); if (served() && question() !== before) refresh(); else render(); });
  let settle;
  addEventListener('resize', () => { clearTimeout(settle); settle = setTimeout(() => { draw(); heat(pinned(), 'drawer'); }, 80); });
  render();
  if (document.fonts && document.fonts.status !== 'loaded') document.fonts.ready.then(() => { draw(); heat(pinned(), 'drawer'); });
  return { refresh, state: () => state, fields: () => fields };
}
