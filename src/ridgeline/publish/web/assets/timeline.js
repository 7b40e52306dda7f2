/* Requests by lane and the engine's own values, on one clock and under one cursor. Canvases, since an hour holds a
   million requests: only the rows in sight are drawn, and of requests that fall on one pixel one is drawn. */
import { firstAtLeast, stretches } from './columns.js';
import { el, number, one, vars } from './dom.js';

const LANE = 22, SUB = 11, PANEL = 92, OVERVIEW = 44, AXIS = 24;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5];

const clock = ms => {
  const sign = ms < 0 ? '−' : '', s = Math.abs(ms) / 1000, m = Math.floor(s / 60), rest = s - 60 * m;
  return m >= 60 ? `${sign}${Math.floor(m / 60)}:${String(m % 60).padStart(2, '0')}:${String(Math.floor(rest)).padStart(2, '0')}` : `${sign}${m}:${String(Math.floor(rest)).padStart(2, '0')}`;
};
const short = text => (text.length > 8 ? `…${text.slice(-7)}` : text);
const fine = (ms, step) => (step >= 1000 ? clock(ms) : `${number(ms / 1000, step >= 100 ? 1 : 3)} s`);

/** host: element. data: columns.js' answer. panels: the interface's answer or null. view: {from, to, open, request} to begin
    with. handlers: moved(view), chosen(id). Answers {show(panels), draw, select}. */
export function timeline(host, data, panels, view, handlers) {
  const { header } = data, groups = stretches(data), none = header.none;
  const span = [header.from, Math.max(header.to, header.from + 1)], full = span[1] - span[0];
  const endOfWindow = header.phases.profiling_end_ns ?? span[1];
  const state = { from: view.from ?? 0, to: view.to ?? 0, open: new Set(view.open ?? []), request: view.request ?? null, cursor: null };
  if (!(state.to > state.from)) { const wide = full <= 9e5 ? full : 6e5; state.from = full <= 9e5 ? span[0] : Math.max(span[0], 0); state.to = state.from + wide; }
  let ink = colours(), W = 0, gutter = 148, sorted = null, queued = 0;

  const readout = el('div', { class: 'readout', 'aria-live': 'off' });
  const overview = el('canvas', { 'aria-hidden': 'true' }), axis = el('canvas', { 'aria-hidden': 'true' }), lanes = el('canvas', { 'aria-hidden': 'true', class: 'lanes' });
  const spacer = el('div'), sheet = el('div', { class: 'lanes-sheet' }, lanes, spacer), box = el('div', { class: 'lanes-box', tabindex: 0, role: 'group', 'aria-label': 'Lanes' }, sheet);
  const under = el('div', { class: 'panels' }), cursor = el('div', { class: 'cursor' });
  const body = el('div', { class: 'timeline', tabindex: 0, role: 'application', 'aria-roledescription': 'timeline', 'aria-label': 'Requests and engine over time', 'aria-describedby': 'time-how' }, overview, axis, box, under, cursor);
  const tools = el('div', { class: 'pager tools' }, button('−', 'Show more time', () => zoom(1.6)), button('+', 'Show less time', () => zoom(1 / 1.6)), button('All', 'All: show everything', () => go(span[0], span[1])),
    button('Subagents', 'Subagents: open or close every lane', () => { const deep = header.lanes.filter(l => l[1]).map(l => l[0]); const all = deep.every(l => state.open.has(l)); state.open = new Set(all ? [] : deep); changed(); }),
    el('span', { class: 'gap' }), el('span', { id: 'time-span', class: 'muted' }));
  host.replaceChildren(readout, body, tools, el('p', { class: 'sr', id: 'time-how' }, 'Left and right arrows move in time, plus and minus zoom, Home shows everything. Requests can be loaded as a Parquet file.'), el('p', { class: 'sr', id: 'time-spoken', 'aria-live': 'polite' }));

  function button(text, label, act) { return el('button', { class: 'btn', type: 'button', 'aria-label': label, title: label, onclick: act }, text); }

  const x = t => gutter + ((t - state.from) / (state.to - state.from)) * (W - gutter - 12);
  const t = px => state.from + ((px - gutter) / (W - gutter - 12)) * (state.to - state.from);
  const ox = ms => gutter + ((ms - span[0]) / full) * (W - gutter - 12), ot = px => span[0] + ((px - gutter) / (W - gutter - 12)) * full;

  const rows = () => {
    const out = [];
    let y = 0;
    for (const [lane, deepest] of header.lanes) {
      out.push({ lane, row: 0, y, h: LANE, deepest });
      y += LANE;
      if (state.open.has(lane)) { for (let r = 1; r <= deepest; r++) { out.push({ lane, row: r, y, h: SUB }); y += SUB; } y += deepest ? 5 : 0; }
    }
    return { out, height: y };
  };

  function fit(canvas, w, h) {
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
    vars(canvas, { width: `${w}px`, height: `${h}px` });
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = 'middle';
    return pen;
  }

  function shade(pen, h) { // what lies outside the measured window
    pen.fillStyle = ink.sunken;
    if (x(0) > gutter) pen.fillRect(gutter, 0, Math.min(W - 12, x(0)) - gutter, h);
    if (x(endOfWindow) < W - 12) pen.fillRect(Math.max(gutter, x(endOfWindow)), 0, W - 12 - Math.max(gutter, x(endOfWindow)), h);
  }

  const ticks = () => { const step = STEPS.find(s => ((W - gutter) * s) / (state.to - state.from) >= 72) ?? 36e5, out = []; for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) out.push(at); return { out, step }; };

  function grid(pen, h) {
    pen.strokeStyle = ink.grid;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const at of ticks().out) { const px = Math.round(x(at)) + 0.5; pen.moveTo(px, 0); pen.lineTo(px, h); }
    pen.stroke();
  }

  function drawOverview() {
    const pen = fit(overview, W, OVERVIEW), bins = flight(), top = Math.max(...bins, 1);
    pen.fillStyle = ink['ink-2'];
    pen.fillText(W < 620 ? 'all' : 'In flight, all', 16, OVERVIEW / 2);
    pen.beginPath();
    pen.moveTo(gutter, OVERVIEW - 4);
    bins.forEach((n, i) => pen.lineTo(gutter + ((i + 0.5) / bins.length) * (W - gutter - 12), OVERVIEW - 4 - (n / top) * (OVERVIEW - 14)));
    pen.lineTo(W - 12, OVERVIEW - 4);
    pen.globalAlpha = 0.35;
    pen.fillStyle = ink.s1;
    pen.fill();
    pen.globalAlpha = 1;
    const a = Math.max(gutter, ox(state.from)), b = Math.min(W - 12, Math.max(ox(state.to), a + 3));
    pen.fillStyle = ink.accent;
    pen.globalAlpha = 0.14;
    pen.fillRect(a, 3, b - a, OVERVIEW - 6);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(a, 3, b - a, OVERVIEW - 6);
  }

  let flightBins = null;
  function flight() {
    if (flightBins) return flightBins;
    const n = 480, change = new Int32Array(n + 1);
    for (let i = 0; i < header.count; i++) {
      const a = Math.floor(((data.sent[i] - span[0]) / full) * n), b = data.end[i] === none ? n : Math.floor(((data.end[i] - span[0]) / full) * n) + 1;
      change[Math.max(0, Math.min(n, a))] += 1; change[Math.max(0, Math.min(n, b))] -= 1;
    }
    let sum = 0;
    return (flightBins = Array.from({ length: n }, (_, i) => (sum += change[i])));
  }

  function drawAxis() {
    const pen = fit(axis, W, AXIS), { out, step } = ticks();
    pen.fillStyle = ink['ink-2'];
    pen.textAlign = 'left';
    pen.fillText('lane · session', 16, AXIS / 2);
    pen.textAlign = 'center';
    for (const at of out) if (x(at) > gutter + 16 && x(at) < W - 24) pen.fillText(fine(at, step), x(at), AXIS / 2);
    pen.textAlign = 'left';
  }

  function drawLanes() {
    const { out, height } = rows(), seen = Math.min(height, Math.max(8 * LANE, Math.min(innerHeight * 0.46, 462)));
    vars(box, { height: `${seen}px` });
    vars(spacer, { height: `${Math.max(0, height - seen)}px` });
    vars(lanes, { position: 'sticky', top: '0px' });
    const pen = fit(lanes, W, seen), top = box.scrollTop, bars = { wait: [], prefill: [], decode: [], sub: [], failed: [], warm: [] };
    shade(pen, seen);
    grid(pen, seen);
    let first = 0;
    while (first < out.length - 1 && out[first + 1].y <= top) first++;
    for (let k = first; k < out.length && out[k].y < top + seen; k++) { label(pen, out[k], out[k].y - top); lay(out[k], out[k].y - top, bars); }
    paint(pen, bars);
    if (state.request != null) ring(pen, out, top);
  }

  function label(pen, row, y) {
    if (row.row) { if (W >= 620) { pen.fillStyle = ink['ink-3']; pen.fillText(`└ ${row.row}`, 34, y + row.h / 2); } return; }
    pen.strokeStyle = ink.grid;
    pen.beginPath(); pen.moveTo(0, Math.round(y) + 0.5); pen.lineTo(W, Math.round(y) + 0.5); pen.stroke();
    pen.fillStyle = ink.ink;
    pen.font = pen.font.replace(/^(600 )?/, '600 ');
    pen.fillText(String(row.lane).padStart(2, '0'), 16, y + row.h / 2);
    pen.font = pen.font.replace(/^600 /, '');
    if (row.deepest) { pen.fillStyle = ink.accent; pen.fillText(`${state.open.has(row.lane) ? '▾' : '▸'} ${row.deepest}`, W < 620 ? 38 : 104, y + row.h / 2); }
    if (W >= 620) {
      const at = groups.get(`${row.lane}.0`), i = at ? Math.max(at[0], firstAtLeast(data.sent, state.cursor ?? state.from, at[0], at[1]) - (state.cursor == null ? 0 : 1)) : -1;
      if (at && i < at[1]) { pen.fillStyle = ink['ink-3']; pen.fillText(short(header.sessions[data.session[i]] ?? ''), 40, y + row.h / 2, 58); }
    }
  }

  /* Bars of one row into lists by kind. Requests that share a pixel with one that was laid are passed over. */
  function lay(row, y, bars) {
    const at = groups.get(`${row.lane}.${row.row}`);
    if (!at) return;
    const high = row.row ? SUB - 3 : LANE - 10, mid = y + row.h / 2, oneMs = (W - gutter - 12) / (state.to - state.from), right = W - 12;
    let i = Math.max(at[0], firstAtLeast(data.sent, state.from, at[0], at[1]) - 3), last = -1;
    while (i < at[1] && data.wanted[i] <= state.to) {
      const s = x(data.sent[i]), end = data.end[i] === none ? right : x(data.end[i]);
      if (data.sent[i] > state.to && x(data.wanted[i]) > right) break;
      const from = Math.max(gutter, s), to = Math.min(right, Math.max(end, s + 0.6));
      if (to > gutter && from < right && Math.floor(to) !== last) {
        last = Math.floor(to);
        const w = x(data.wanted[i]), failed = data.flags[i] & 1, sub = data.flags[i] & 2;
        if (s - w > 1.5) bars.wait.push(Math.max(gutter, w), mid - 0.75, Math.max(0, from - Math.max(gutter, w)), 1.5);
        const f = data.first[i] === none ? to : Math.min(to, Math.max(from, x(data.first[i])));
        if (failed) bars.failed.push(from, mid - high / 2, Math.max(1, to - from), high);
        else {
          if (f - from > 0.4) bars.prefill.push(from, mid - high / 2, f - from, high);
          (sub ? bars.sub : bars.decode).push(f, mid - high / 2, Math.max(0.8, to - f), high);
        }
      }
      // where many requests share a pixel, go on with the first one of the next pixel
      if (oneMs < 0.02) { const next = firstAtLeast(data.sent, t(Math.floor(s) + 1), i + 1, at[1]); i = Math.max(i + 1, next); } else i += 1;
    }
  }

  function paint(pen, bars) {
    const kinds = { wait: ink['ink-3'], decode: ink.s1, sub: ink.s3, prefill: ink.s2, failed: ink.bad };
    for (const [kind, colour] of Object.entries(kinds)) {
      pen.fillStyle = colour;
      const list = bars[kind];
      for (let i = 0; i < list.length; i += 4) pen.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
  }

  function ring(pen, out, top) {
    const i = state.request, row = out.find(r => r.lane === data.lane[i] && r.row === data.row[i]);
    if (!row) return;
    pen.strokeStyle = ink.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(x(data.sent[i]) - 2, row.y - top + 2, Math.max(4, x(data.end[i] === none ? state.to : data.end[i]) - x(data.sent[i]) + 4), row.h - 4);
  }

  function drawPanels() {
    const list = panels?.panels ?? [];
    while (under.children.length > list.length) under.lastChild.remove();
    list.forEach((panel, k) => {
      const canvas = under.children[k] ?? under.appendChild(el('canvas', { 'aria-hidden': 'true' })), pen = fit(canvas, W, PANEL), floor = PANEL - 10, roof = W < 620 ? 26 : 12;
      const values = panel.lines.flatMap(line => inSight(line)), top = panel.unit === 'ratio' ? Math.max(Math.min(1, Math.max(...values, 0.01) * 1.1), 0.05) : Math.max(...values, 0.001) * 1.12, y = v => floor - (v / top) * (floor - roof);
      shade(pen, PANEL);
      grid(pen, PANEL);
      pen.strokeStyle = ink.line;
      pen.beginPath(); pen.moveTo(0, 0.5); pen.lineTo(W, 0.5); pen.stroke();
      const named = panel.lines.filter(line => line.role !== 'rank'), ranks = panel.lines.length - named.length;
      if (W < 620) { inside(pen, panel, named); ticksOf(pen, panel, y, top); lines(pen, panel, y); return; }
      heading(pen, panel.title, 16, 18);
      named.forEach((line, n) => { pen.fillStyle = named.length > 1 ? roleInk(line.role) : ink['ink-2']; pen.fillText(named.length > 1 || ranks ? line.name : unitOf(panel), 16, 36 + n * 16); });
      if (ranks) { pen.fillStyle = ink['ink-3']; pen.fillText(`${ranks} ranks, thin`, 16, 36 + named.length * 16); }
      ticksOf(pen, panel, y, top);
      lines(pen, panel, y);
    });
  }
  function ticksOf(pen, panel, y, top) {
    pen.textAlign = 'right';
    pen.fillStyle = ink['ink-2'];
    for (const v of [top / 1.12, top / 2.24]) pen.fillText(panel.unit === 'ratio' ? `${Math.round(100 * v)} %` : number(+v.toPrecision(2)), gutter - 8, y(v));
    pen.textAlign = 'left';
  }
  function lines(pen, panel, y) {
    pen.save();
    pen.beginPath(); pen.rect(gutter, 0, W - gutter - 12, PANEL); pen.clip();
    for (const line of panel.lines) stroke(pen, line, y);
    pen.restore();
  }
  function heading(pen, text, px, py) {
    pen.fillStyle = ink.ink;
    pen.font = pen.font.replace(/^/, '600 ');
    pen.fillText(text, px, py);
    const wide = pen.measureText(text).width;
    pen.font = pen.font.replace(/^600 /, '');
    return wide;
  }
  /* On a phone there is no room beside the plot: names stand above it, in one line. */
  function inside(pen, panel, named) {
    let px = 16 + heading(pen, panel.title, 16, 9) + 10;
    if (named.length < 2) { pen.fillStyle = ink['ink-2']; pen.fillText(unitOf(panel), px, 9); return; }
    for (const line of named) { pen.fillStyle = roleInk(line.role); pen.fillText(line.name, px, 9); px += pen.measureText(line.name).width + 10; }
  }
  const unitOf = panel => (panel.unit === 'ratio' ? 'percent' : panel.unit);
  const roleInk = role => ({ main: ink.ink, warn: ink.bad, good: ink.s3, second: ink['ink-3'], rank: ink['line-2'] })[role] ?? ink.ink;
  function inSight(line) { const a = Math.max(0, firstAtLeast(line.t, state.from, 0, line.t.length) - 1), b = firstAtLeast(line.t, state.to, 0, line.t.length) + 1; return line.v.slice(a, b).filter(v => v != null); }
  function stroke(pen, line, y) {
    const a = Math.max(0, firstAtLeast(line.t, state.from, 0, line.t.length) - 1), b = Math.min(line.t.length, firstAtLeast(line.t, state.to, 0, line.t.length) + 1);
    pen.strokeStyle = roleInk(line.role);
    pen.lineWidth = line.role === 'rank' ? 0.8 : line.role === 'main' ? 1.8 : 1.5;
    pen.lineJoin = 'round';
    pen.beginPath();
    let down = false;
    for (let i = a; i < b; i++) { const v = line.v[i]; if (v == null) { down = false; continue; } if (down) pen.lineTo(x(line.t[i]), y(v)); else pen.moveTo(x(line.t[i]), y(v)); down = true; }
    pen.stroke();
  }

  function counts(at) {
    if (!sorted) sorted = { wanted: Int32Array.from(data.wanted).sort(), sent: Int32Array.from(data.sent).sort(), end: Int32Array.from(data.end, v => (v === none ? 2147483647 : v)).sort(), first: Int32Array.from(data.first, (v, i) => (v === none ? (data.end[i] === none ? 2147483647 : data.end[i]) : v)).sort() };
    const n = header.count, upTo = array => firstAtLeast(array, at + 1, 0, n), sent = upTo(sorted.sent), first = upTo(sorted.first), end = upTo(sorted.end);
    return { flying: sent - end, prefill: Math.max(0, sent - first) };
  }

  function read() {
    const at = state.cursor;
    const figure = (value, words) => el('span', {}, el('b', {}, value), ` ${words}`);
    if (at == null) {
      readout.replaceChildren(figure(number(header.count), 'requests'), figure(number(header.lanes.length), 'lanes'), figure(number(header.sessions.length), 'sessions'), el('span', {}, 'measured for ', el('b', {}, clock(endOfWindow))), header.speed !== 1 ? el('span', {}, `time ran ${number(header.speed)} times faster; shown as simulated`) : '');
      return;
    }
    const { flying, prefill } = counts(at), values = (panels?.panels ?? []).flatMap(panel => panel.lines.filter(line => line.role !== 'rank').map(line => [panel, line, line.v[Math.max(0, firstAtLeast(line.t, at + 1, 0, line.t.length) - 1)]]));
    readout.replaceChildren(figure(clock(at), `of ${clock(endOfWindow)}`), figure(number(flying), 'in flight'), figure(number(prefill), 'before their first token'),
      ...values.filter(([panel, , v]) => v != null && panel.key !== 'flight').map(([panel, line, v]) => figure(panel.unit === 'ratio' ? `${number(100 * v, 0)} %` : number(+v.toPrecision(3)), `${panel.title} ${line.name}`.replace('Requests ', 'server '))));
  }

  function move(px) {
    const inside = px != null && px >= gutter && px <= W - 12;
    state.cursor = inside ? t(px) : null;
    cursor.classList.toggle('on', inside);
    if (inside) vars(cursor, { left: `${px}px`, display: 'block' }); else vars(cursor, { display: 'none' });
    read();
  }

  function draw() {
    queued = 0;
    W = body.clientWidth;
    if (!W) return;
    gutter = W < 620 ? 72 : 148;
    drawOverview(); drawAxis(); drawLanes(); drawPanels();
    one('#time-span', tools).textContent = `${clock(state.from)} to ${clock(state.to)}`;
  }
  const later = () => { if (!queued) queued = requestAnimationFrame(draw); };
  const changed = () => { later(); handlers.moved({ from: Math.round(state.from), to: Math.round(state.to), open: [...state.open], whole: state.from <= span[0] && state.to >= span[1] }); };
  function go(from, to) {
    const wide = Math.min(Math.max(to - from, 20), full);
    state.from = Math.min(Math.max(from, span[0]), span[1] - wide);
    state.to = state.from + wide;
    changed();
  }
  const zoom = (by, at = (state.from + state.to) / 2) => go(at - (at - state.from) * by, at + (state.to - at) * by);

  body.addEventListener('pointermove', event => move(event.clientX - body.getBoundingClientRect().left));
  body.addEventListener('pointerleave', () => move(null));
  body.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // plain wheels scroll
    event.preventDefault();
    if (event.ctrlKey || event.shiftKey) zoom(Math.exp((event.deltaY || event.deltaX) * 0.002), t(event.clientX - body.getBoundingClientRect().left));
    else { const by = (event.deltaX / (W - gutter)) * (state.to - state.from); go(state.from + by, state.to + by); }
  }, { passive: false });
  body.addEventListener('keydown', event => {
    const wide = state.to - state.from, act = { ArrowLeft: () => go(state.from - wide * 0.2, state.to - wide * 0.2), ArrowRight: () => go(state.from + wide * 0.2, state.to + wide * 0.2), '+': () => zoom(1 / 1.5), '=': () => zoom(1 / 1.5), '-': () => zoom(1.5), Home: () => go(span[0], span[1]), ArrowUp: () => { box.scrollTop -= LANE; }, ArrowDown: () => { box.scrollTop += LANE; }, Escape: () => select(null) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    one('#time-spoken', host).textContent = `${clock(state.from)} to ${clock(state.to)}`;
  });
  drag(overview, px => { const wide = state.to - state.from, at = ot(px); go(at - wide / 2, at + wide / 2); });
  let held = null;
  body.addEventListener('pointerdown', event => {
    if (event.target === overview || event.button || event.pointerType === 'touch') return;
    held = { x: event.clientX, from: state.from, to: state.to, moved: false };
  });
  addEventListener('pointermove', event => {
    if (!held) return;
    const by = event.clientX - held.x;
    if (Math.abs(by) > 3) held.moved = true;
    if (held.moved) { const ms = (by / (W - gutter - 12)) * (held.to - held.from); go(held.from - ms, held.to - ms); }
  });
  addEventListener('pointerup', event => {
    if (!held) return;
    const was = held;
    held = null;
    if (!was.moved && event.target === lanes) press(event);
  });
  box.addEventListener('click', event => { if (event.pointerType === 'touch') press(event); });
  box.addEventListener('scroll', later, { passive: true });

  function press(event) {
    const area = lanes.getBoundingClientRect(), px = event.clientX - area.left, py = event.clientY - area.top + box.scrollTop, row = rows().out.find(r => py >= r.y && py < r.y + r.h);
    if (!row) return;
    if (px < gutter) { if (row.deepest) { if (state.open.has(row.lane)) state.open.delete(row.lane); else state.open.add(row.lane); changed(); } return; }
    const at = groups.get(`${row.lane}.${row.row}`), when = t(px), slack = (3 / (W - gutter)) * (state.to - state.from);
    if (!at) return;
    for (let i = firstAtLeast(data.sent, when + slack + 1, at[0], at[1]) - 1; i >= Math.max(at[0], firstAtLeast(data.sent, when, at[0], at[1]) - 6); i--) {
      if (data.sent[i] - slack <= when && (data.end[i] === none || data.end[i] + slack >= when)) { select(i); return; }
    }
    select(null);
  }
  function select(i) { state.request = i; handlers.chosen(i == null ? null : data.id[i]); later(); }

  function drag(node, act) {
    node.addEventListener('pointerdown', event => {
      event.preventDefault();
      node.setPointerCapture(event.pointerId);
      const step = e => act(e.clientX - node.getBoundingClientRect().left);
      step(event);
      node.addEventListener('pointermove', step);
      node.addEventListener('pointerup', () => node.removeEventListener('pointermove', step), { once: true });
    });
  }

  const recolour = () => { ink = colours(); later(); };
  new MutationObserver(recolour).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
  new ResizeObserver(later).observe(body);
  read();
  draw();
  return { show: more => { panels = more; later(); read(); }, draw, select: id => { const i = data.id.indexOf(id); if (i >= 0) { state.request = i; later(); } }, frame: () => { draw(); } };
}

/** The tokens as colours a canvas takes. */
function colours() {
  const probe = document.body.appendChild(el('i', { hidden: true })), out = {};
  for (const name of ['ink', 'ink-2', 'ink-3', 'line', 'line-2', 'grid', 'surface', 'sunken', 'accent', 'bad', 's1', 's2', 's3']) { vars(probe, { color: `var(--${name})` }); out[name] = getComputedStyle(probe).color; }
  probe.remove();
  return out;
}
