/* One point: requests over time, the engine under the same clock, and its logs. The window that is looked at, open lanes
   and the chosen request are the query string. */
import { columns } from './columns.js';
import { el, figure, number, one } from './dom.js';
import { fetchJson, servedPage, showNotice } from './served.js';
import { decode, encode } from './state.js';
import { timeline } from './timeline.js';

const main = one('#main'), address = main.dataset.address;
const whole = { fallback: null, parse: text => (/^-?\d+$/.test(text) ? Number(text) : undefined), print: v => (v == null ? '' : String(v)) };
const kept = { fallback: '', parse: text => text, print: v => v ?? '' };
const fields = {
  channel: kept, from: whole, to: whole, request: whole,
  open: { fallback: [], parse: text => (/^\d+(,\d+)*$/.test(text) ? text.split(',').map(Number) : undefined), print: v => v.join(',') },
};
const { state, notices } = decode(location.search, fields);
if (notices.length) showNotice('#notice', [el('span', {}, el('b', {}, 'Left out of the link: '), `${notices.join('; ')}.`)]);
const save = () => { const text = encode(state, fields); history.replaceState(null, '', text ? `?${text}` : location.pathname); };

servedPage();
if (main.dataset.requests === '1') start(); else logs();

async function start() {
  const host = one('#timeline');
  try {
    const answer = await fetch(`/api/v1/points/${address}/timeline`);
    if (!answer.ok) throw new Error((await answer.json()).error);
    const data = columns(await answer.arrayBuffer());
    if (!data.header.count) { host.replaceChildren(el('div', { class: 'nothing' }, el('p', {}, el('b', {}, 'No request was sent.')))); return; }
    const chart = timeline(host, data, null, { ...state, request: null }, {
      moved: view => { Object.assign(state, view.whole ? { from: null, to: null } : { from: view.from, to: view.to }); state.open = view.open; save(); },
      chosen: id => { state.request = id; save(); request(id); },
    });
    globalThis.ridgelineTimeline = chart; // benches draw frames through it
    if (state.request != null) { chart.select(state.request); request(state.request); }
    if (main.dataset.server === '1') chart.show(await fetchJson(`/api/v1/points/${address}/server-metrics`));
    document.documentElement.dataset.ready = 'panels';
  } catch (error) {
    host.replaceChildren(el('div', { class: 'nothing', role: 'alert' }, el('p', {}, el('b', {}, 'The requests could not be read.')), el('p', {}, error.message), el('button', { class: 'btn', type: 'button', onclick: start }, 'Try again')));
  }
  logs();
}

/* The chosen request, in words. */
async function request(id) {
  one('#request')?.remove();
  if (id == null) return;
  const box = el('div', { id: 'request', class: 'note request', role: 'status' }, `Request ${id}`);
  one('#time').append(box);
  try {
    const r = await fetchJson(`/api/v1/points/${address}/requests/${id}`);
    const time = v => (v == null ? 'not seen' : figure(v, { unit: 's' }).join(' ')), count = v => (v == null ? 'not told' : number(v));
    const rows = [['Session', r.session_id], ['Stream', r.depth ? `subagent ${r.correlation_id}` : 'root'], ['Turn', number(r.turn_index)], ['Phase', r.phase], ['Ended', r.error ? `${r.outcome}: ${r.error}` : r.outcome],
      ['Time to first token', time(r.ttft_s)], ['End to end', time(r.e2e_s)], ['Sent after it was due', time(r.lag_s)], ['Prompt tokens', count(r.prompt_tokens)], ['of them cached', count(r.cached_tokens)], ['Output tokens', count(r.completion_tokens)]];
    box.replaceChildren(el('h3', { class: 'small-head' }, el('span', {}, `Request ${number(r.request_id)}`), el('button', { class: 'link-btn', type: 'button', onclick: () => { state.request = null; save(); box.remove(); globalThis.ridgelineTimeline.select(null); } }, 'Close')), el('dl', { class: 'facts wide-facts' }, rows.map(([name, text]) => [el('dt', {}, name), el('dd', {}, text)])));
  } catch (error) { box.replaceChildren(error.message); }
}

function logs() {
  const name = one('#log-name');
  if (!name || name.dataset.on) return;
  name.dataset.on = '1';
  const host = one('#log'), words = one('#log-q');
  let start = 0;
  const load = async () => {
    try {
      const found = await fetchJson(`/api/v1/points/${address}/logs/${encodeURIComponent(name.value)}?${new URLSearchParams({ start, q: words.value })}`);
      host.replaceChildren(...found.lines.flatMap(([n, text]) => [el('i', {}, `${n + 1}`), `${text}\n`]));
      if (!found.lines.length) host.replaceChildren(words.value ? 'No line holds that.' : 'The log is empty.');
      one('#log-back').disabled = !start || Boolean(words.value);
      one('#log-on').disabled = !found.more;
      one('#log-where').textContent = words.value ? `${found.lines.length} lines${found.lines.length === 50 ? ', the first 50' : ''}` : '';
    } catch (error) { host.replaceChildren(error.message); }
  };
  let wait;
  words.addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(() => { start = 0; load(); }, 200); });
  name.addEventListener('change', () => { start = 0; load(); });
  one('#log-back').addEventListener('click', () => { start = Math.max(0, start - 400); load(); });
  one('#log-on').addEventListener('click', () => { start += 400; load(); });
  load();
}
