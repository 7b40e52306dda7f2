/* What every served page does: theme, folding rail, search key, and asking whether the data is still the same. */
import { copy, el, one } from './dom.js';
import { shell } from './shell.js';

const POLL_MS = 5000;

/** JSON of the interface; an error carries the server's sentence. */
export async function fetchJson(path, options = {}) {
  const answer = await fetch(path, { headers: { accept: 'application/json' }, ...options });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.error ?? `${answer.status} ${answer.statusText}`);
  return body;
}

/** every: called with the new version when the data changed; without it the page offers to load again. */
export function servedPage(version = null, every = null) {
  shell('ridgeline-theme');
  const fold = one('#fold'), root = document.documentElement;
  fold.setAttribute('aria-expanded', String(root.dataset.rail === 'open'));
  fold.addEventListener('click', () => {
    const open = root.dataset.rail !== 'open';
    if (open) root.dataset.rail = 'open'; else delete root.dataset.rail;
    localStorage.setItem('ridgeline-rail', open ? 'open' : '');
    fold.setAttribute('aria-expanded', String(open));
    dispatchEvent(new Event('resize'));
  });
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.closest('input, textarea, select')) return;
    event.preventDefault();
    one('#search').focus();
  });
  document.addEventListener('click', event => {
    const button = event.target.closest('[data-copy-text]');
    if (button) copy(button.dataset.copyText, (button.getAttribute('aria-label') ?? 'Text').replace(/^Copy: /, ''));
  });
  if (version) watch(version, every);
}

function watch(version, every) {
  let known = version, lost = 0;
  const look = async () => {
    if (document.hidden) return;
    try {
      const now = (await fetchJson('/api/v1/version')).version;
      if (lost >= 2) showNotice('#failure', null);
      lost = 0;
      if (now === known) return;
      known = now;
      if (every) every(now);
      else showNotice('#stale', [el('span', {}, el('b', {}, 'There is newer data. '), 'What you see is as it was when the page was opened.'), el('a', { class: 'link-btn', href: location.href }, 'Load again')]);
    } catch (error) {
      lost += 1;
      if (lost === 2) showNotice('#failure', [el('span', {}, el('b', {}, 'The server does not answer. '), `What you see stays; it may be out of date. (${error.message})`)]);
    }
  };
  setInterval(look, POLL_MS);
  document.addEventListener('visibilitychange', look);
}

export function showNotice(selector, nodes) {
  const host = one(selector);
  if (!host) return;
  host.hidden = !nodes;
  host.replaceChildren(...(nodes ?? []));
}
