/* The point drawer: everything one point knows about itself, in the order of a reader's questions: how much, is it
   true, what beats it, how does it move under load, how do I get it again. */
import { copyButton, el, figure, figureText, figureUnit, number } from './dom.js';
import { markPath, swatch } from './marks.js';
import { badge, cautionBadges, NOT_MEASURED, shortName, sourceBadge, validityBadge, why } from './words.js';

const section = (title, side, ...content) => el('section', {}, el('h3', {}, el('span', {}, title), side ? el('span', { class: 'side-note' }, side) : null), content);

/** point, and what the page knows around it: {series, measures, headline: [keys], x, y, ladder: [points], by: {point, near} or null,
    neighbour: point or null, on, run}. actions: go(point), close(). */
export function drawer(host, point, around, actions) {
  const { series, measures, ladder } = around, k = ladder.indexOf(point);
  host.replaceChildren(...[
    el('header', {},
      el('div', { class: 'row' }, swatch(series), el('h2', { tabindex: -1 }, `${series.name} · ${shortName(point)}`), el('div', { class: 'gap' }),
        step('←', 'Lower concurrency', ladder[k - 1], actions), step('→', 'Higher concurrency', ladder[k + 1], actions),
        el('button', { class: 'btn icon', type: 'button', 'aria-label': 'Close', title: 'Close (Escape)', onclick: actions.close }, '✕')),
      el('div', { class: 'row badges' }, sourceBadge(point.source), series.overlay ? badge(`unofficial: ${series.overlay}`, 'outline') : null, validityBadge(point),
        point.validity === 'degraded' ? null : point.state === 'on' ? badge('on frontier', 'accent') : point.state === 'missing' ? badge('not plotted', '') : badge(around.by?.near ? '≈ within noise' : 'dominated'), cautionBadges(point))),
    numbers(point, around), truth(point), standing(point, around, actions), cautions(point), ladderSection(point, around), deeper(around), around.waiting ? skeleton() : point.failed ? section('The rest of this point', null, el('p', { class: 'reading' }, `The server did not give it: ${point.failed}`)) : [recipe(point, around), commands(point, around), everything(point, measures), provenance(point)]].flat(2).filter(Boolean));
  host.scrollTop = 0;
}

/* While the recipe and the commands of a served page are on their way. */
const skeleton = () => el('section', { 'aria-busy': 'true', 'aria-label': 'Loading' }, [1, 2, 3, 4].map(() => el('div', { class: 'skeleton' })));

/* Pages that hold more of the point than a drawer can. */
const deeper = ({ deeper: links }) => (links?.length ? section('Further in', null, el('ul', { class: 'links' }, links.map(([text, href]) => el('li', {}, el('a', { href }, text))))) : null);

const step = (arrow, label, to, actions) => el('button', { class: 'btn icon', type: 'button', 'aria-label': label, title: label, disabled: !to, onclick: () => to && actions.go(to) }, arrow);

function numbers(point, { measures, headline, x, y }) {
  const shown = (key, minor) => {
    const v = point.v[key], m = measures[key], [text, unit] = v == null ? [] : figure(v, m);
    return el('div', {}, el('dt', {}, m.label), v == null
      ? el('dd', { class: 'absent' }, el('span', { class: 'none' }, 'not measured'), el('small', {}, why(point, key)))
      : el('dd', { class: minor ? 'minor' : '' }, text, ' ', el('small', {}, unit), range(point, key, m)));
  };
  return el('section', {}, el('dl', { class: 'big' }, shown(y), shown(x), headline.filter(key => key !== x && key !== y).slice(0, 4).map(key => shown(key, true))),
    el('p', { class: 'small faint' }, point.repeats > 1 ? `Means of ${point.repeats} repeats; below each its lowest and highest.` : ['One run, so no interval: ', el('code', {}, '--repeats 3'), ' measures a cell three times.']));
}

const range = (point, key, m) => (point.bars[key] ? el('span', { class: 'range' }, point.bars[key].map(v => figure(v, m)[0]).join(' to ')) : null);

function truth(point) {
  if (point.source === 'measured' && point.validity === 'valid') return null;
  const lines = [];
  if (point.source !== 'measured') lines.push([sourceBadge(point.source), NOT_MEASURED[point.source] ?? '']);
  const what = { degraded: 'The run contradicted what was promised. Shown, never on a frontier.', unproven: 'Nothing in the logs or metrics proves that the engine did what was promised.', invalid: 'Not to be read as a number.' }[point.validity];
  if (what) lines.push([validityBadge(point), what]);
  for (const reason of point.reasons) lines.push([null, reason]);
  return section('How far to trust it', null, el('ul', { class: 'truth' }, lines.map(([mark, text]) => el('li', {}, el('span', {}, mark ?? ''), el('span', {}, text)))));
}

function standing(point, { by, measures, x, y }, actions) {
  if (point.validity === 'degraded') return section('Frontier', null, el('p', { class: 'reading' }, 'A degraded point never enters a frontier.'));
  if (point.state === 'missing') return section('Frontier', null, el('p', { class: 'reading' }, 'Not on this chart: ', why(point, point.v[x] == null ? x : y)));
  if (!by) return section('Frontier', null, el('p', { class: 'reading' }, `No other point of this series is at least as good on both axes and better on one.`));
  const gap = key => {
    const a = by.point.v[key], b = point.v[key], m = measures[key];
    if (a === b) return `the same ${m.said}`;
    const relative = b ? `${number((100 * Math.abs(a - b)) / Math.abs(b), 1)} % ` : '';
    return `${relative}${a > b ? 'higher' : 'lower'} ${m.said} (${number(a)} against ${number(b)})`;
  };
  return section(by.near ? 'Within noise of' : 'Dominated by', null, el('button', { class: 'verdict', type: 'button', onclick: () => actions.go(by.point) },
    el('b', {}, shortName(by.point)), ': ', gap(x), ' and ', gap(y), '. ', by.near ? 'A gap lies inside the noise: the order is not settled. ' : '', el('span', { class: 'act' }, 'Show it →')));
}

const cautions = point => (point.cautions.length ? section('Cautions', null, el('ul', { class: 'cautions' }, point.cautions.map(c => el('li', {}, el('span', { class: 'warn-ink', 'aria-hidden': 'true' }, '▲'), el('span', {}, el('b', {}, c.code), ' ', c.message, c.hint ? el('span', { class: 'hint' }, c.hint) : null))))) : null);

function ladderSection(point, around) {
  const { ladder, x, y } = around;
  if (ladder.length < 2) return null;
  return section('Along this arm', `${point.arm}, ${ladder.length} points`, el('div', { class: 'spark-row' }, spark(point, around, y), spark(point, around, x)));
}

function spark(point, { ladder, series, measures }, key) {
  const W = 180, left = 8, right = 172, top = 10, floor = 48, m = measures[key], rungs = ladder.filter(p => p.v[key] != null), peak = Math.max(...rungs.map(p => p.v[key]), 0) || 1;
  const px = p => (rungs.length < 2 ? W / 2 : left + (rungs.indexOf(p) / (rungs.length - 1)) * (right - left)), py = p => floor - (p.v[key] / peak) * (floor - top);
  const svg = el('svg', { viewBox: `0 0 ${W} 66`, width: '100%', role: 'img', 'aria-label': `${m.label} over concurrency: ${rungs.map(p => `${p.c}: ${number(p.v[key])}`).join(', ')}` },
    el('line', { x1: 0, x2: W, y1: floor + 4, y2: floor + 4, class: 'axis' }), el('path', { d: rungs.length ? `M${rungs.map(p => `${px(p)},${py(p)}`).join('L')}` : '', class: 'spark', stroke: `var(--s${series.slot})` }));
  rungs.forEach((p, i) => {
    const me = p === point;
    svg.append(el('path', { d: markPath(series.shape, px(p), py(p), me ? 5 : 2.4), fill: me ? `var(--s${series.slot})` : 'var(--surface)', stroke: `var(--s${series.slot})` }));
    if (me || ((i === 0 || i === rungs.length - 1) && Math.abs(px(p) - px(point)) > 40)) svg.append(el('text', { x: px(p), y: 65, 'text-anchor': i === 0 ? 'start' : i === rungs.length - 1 ? 'end' : 'middle', class: me ? 'me' : '' }, `c${p.c}`));
  });
  return el('div', {}, el('p', { class: 'spark-title' }, el('span', { title: m.label }, m.name), el('b', {}, point.v[key] == null ? 'not measured' : number(point.v[key]))), svg);
}

function recipe(point, { neighbour: beside }) {
  const neighbour = beside?.facts.length ? beside : null, other = new Map(neighbour ? neighbour.facts : []); // its facts may be on their way
  const rows = [['Concurrency', String(point.c), neighbour && String(neighbour.c)], ['GPUs', String(point.gpus), neighbour && String(neighbour.gpus)], ...point.facts.map(([name, text]) => [name, text, neighbour && (other.get(name) ?? 'not set')])];
  return section('Recipe', neighbour ? `marked where it differs from c${neighbour.c}` : null, el('dl', { class: 'facts' }, rows.map(([name, text, was]) => [el('dt', {}, name), el('dd', {}, was != null && was !== text ? [el('span', { class: 'diff' }, text), el('s', {}, was)] : text)])));
}

function commands(point, { run }) {
  const known = point.again ? [{ label: 'Run this point again', text: point.again }] : run.commands;
  const again = known.map(({ label, text }) => el('section', {}, el('h3', {}, el('span', {}, label), copyButton(text, label)), el('pre', { class: 'command' }, text)));
  if (!again.length) again.push(section('Run it again', null, el('p', { class: 'reading' }, 'The run recorded no command.')));
  return [...again, ...point.launch.map(launch)];
}

/* What was started for the point: environment and arguments, and at the right where each was written. */
function launch({ service, env, argv }) {
  const text = [...env.map(([item]) => item), ...argv.map(([item]) => item)].join(' ');
  const label = `Launch command, ${service}`;
  return el('section', {}, el('h3', {}, el('span', {}, label), copyButton(text, label)),
    el('div', { class: 'argv' }, [...env, ...argv].map(([item, origin], k) => [el('span', {}, k ? `  ${item}` : item), el('span', { class: 'origin' }, origin)])));
}

/* Every measure of the point: a metric a row, its statistics across. */
function everything(point, measures) {
  const groups = new Map();
  for (const [key, m] of Object.entries(measures)) {
    if (!(key in point.v) && !(key in point.why)) continue;
    if (!groups.has(m.metric)) groups.set(m.metric, []);
    groups.get(m.metric).push(key);
  }
  return el('section', {}, el('details', {}, el('summary', {}, `All ${groups.size} metrics`), el('dl', { class: 'all' }, [...groups].map(([, keys]) => [
    el('dt', { title: measures[keys[0]].formula }, measures[keys[0]].title, el('span', { class: 'faint' }, ` ${figureUnit(measures[keys[0]])}`)),
    el('dd', {}, keys.every(key => point.v[key] == null) ? el('span', { class: 'none' }, why(point, keys[0]))
      : keys.map(key => el('span', { class: 'stat' }, measures[key].part ? el('i', {}, measures[key].part) : null, point.v[key] == null ? el('span', { class: 'none', title: why(point, key) }, 'not measured') : figureText(point.v[key], measures[key]))))]))));
}

const provenance = point => section('Where it came from', null, el('dl', { class: 'facts' }, point.provenance.map(([name, text]) => [el('dt', {}, name), el('dd', { class: 'mono' }, text)])));
