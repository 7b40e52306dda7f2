/* What every page has around its content: theme, link, skip button. The theme follows the system until it is chosen. */
import { copy, one } from './dom.js';

const root = document.documentElement;
const dark = () => (root.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';

/** keep: name under which the choice is kept in the browser; a file keeps nothing. */
export function shell(keep = null) {
  const kept = keep && localStorage.getItem(keep);
  if (kept === 'dark' || kept === 'light') root.dataset.theme = kept;
  one('#theme').addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    if (keep) localStorage.setItem(keep, root.dataset.theme);
  });
  one('#link')?.addEventListener('click', () => copy(location.href, 'Link'));
  one('#skip').addEventListener('click', () => one('#main').focus());
}
