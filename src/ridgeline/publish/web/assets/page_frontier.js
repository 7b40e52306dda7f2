/* The frontier as a served page: the query string is the state, and the server answers for another question. */
import { el, one } from './dom.js';
import { frontierPage } from './frontier.js';
import { fetchJson, servedPage, showNotice } from './served.js';
import { decode, encode } from './state.js';

/* The frame is painted before the chart is drawn. (A hidden tab paints nothing, and does not wait.) */
await new Promise(go => { requestAnimationFrame(() => setTimeout(go)); setTimeout(go, 120); });

const first = JSON.parse(one('#data').textContent);
const anyText = { fallback: '', parse: value => value, print: value => value ?? '' };
const serverFields = { channel: anyText, run: anyText, overlay: { fallback: [], print: value => value.join('\0'), many: true } };

const OF_THE_SERVER = ['channel', 'run', 'overlay', 'model', 'on', 'x', 'y'];
const forServer = all => { const out = new URLSearchParams(); for (const [name, value] of all) if (OF_THE_SERVER.includes(name)) out.append(name, value); return out; };

const page = frontierPage(first, {
  fields: serverFields,
  load: all => fetchJson(`/api/v1/chart?${forServer(all)}`),
  detail: point => fetchJson(`/api/v1/points/${point.id.replace(/~over$/, '')}/card`),
  deeper: point => [
    ['Requests, engine and proof over time', `/points/${point.id.replace(/~over$/, '')}`],
    ['The run it belongs to', `/runs/${point.id.split('~')[0]}`],
  ],
});

servedPage(first.versions, () => showNotice('#stale', [
  el('span', {}, el('b', {}, 'There is newer data. '), 'The chart is as it was when you opened it.'),
  el('button', { class: 'link-btn', type: 'button', onclick: () => { showNotice('#stale', null); page.refresh(); } }, 'Show it'),
]));

one('#overlay').addEventListener('change', event => {
  if (!event.target.value) return;
  const query = new URLSearchParams(location.search);
  query.append('overlay', event.target.value);
  location.search = query;
});
globalThis.ridgelineState = () => ({ fields: page.fields(), encode, decode }); // tests ask whether every state survives
