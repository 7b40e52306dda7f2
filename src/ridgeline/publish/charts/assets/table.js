/* The table under the plot: every plotted point, sortable by every column, bound to the plot both ways. One tab stop;
   arrows move inside. */
import { all, el, one } from './dom.js';

/** columns: [{key, name, unit, class, sort(point), cell(point)}]; rows: points in any order; order: {key, down}.
    handlers: sort(key), hover(i), open(i). `most`: rows that are written. */
export function table(host, columns, rows, order, open, handlers, most = Infinity) {
  const column = columns.find(c => c.key === order.key) ?? columns[0];
  const sorted = [...rows].sort((a, b) => {
    const u = column.sort(a), v = column.sort(b);
    if (u == null || v == null) return (u == null) - (v == null) || a.i - b.i;
    return (order.down ? -1 : 1) * (u > v ? 1 : u < v ? -1 : 0) || a.i - b.i;
  });
  const focused = document.activeElement?.dataset?.column;
  const head = el('tr', {}, columns.map(c => el('th', { class: c.class, scope: 'col', 'aria-sort': c === column ? (order.down ? 'descending' : 'ascending') : 'none' },
    el('button', { type: 'button', 'data-column': c.key, onclick: () => handlers.sort(c.key) }, c.name, el('span', { class: 'arrow', 'aria-hidden': 'true' }, c === column ? (order.down ? ' ↓' : ' ↑') : ''), c.unit ? el('span', { class: 'unit' }, c.unit) : null))));
  const body = el('tbody', {}, sorted.slice(0, most).map((p, k) => {
    const row = el('tr', { 'data-i': p.i, tabindex: k ? -1 : 0, class: `${p.state} ${p.source === 'measured' ? '' : 'unmeasured'}${p.i === open ? ' open' : ''}` }, columns.map(c => el('td', { class: c.class }, c.cell(p))));
    row.addEventListener('mouseenter', () => handlers.hover(p.i));
    row.addEventListener('mouseleave', () => handlers.hover(null));
    row.addEventListener('focus', () => handlers.hover(p.i));
    row.addEventListener('click', () => handlers.open(p.i));
    row.addEventListener('keydown', event => {
      const list = row.parentNode.children, to = { ArrowDown: row.nextSibling, ArrowUp: row.previousSibling, Home: list[0], End: list[list.length - 1] }[event.key];
      if (to) { event.preventDefault(); row.tabIndex = -1; to.tabIndex = 0; to.focus(); }
      if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); handlers.open(p.i); }
    });
    return row;
  }));
  host.replaceChildren(el('caption', { class: 'sr' }, 'Every plotted point'), el('thead', {}, head), body);
  if (focused) one(`[data-column="${CSS.escape(focused)}"]`, host)?.focus({ preventScroll: true });
}

export function light(host, i, scroll) {
  for (const row of all('tr.hot', host)) row.classList.remove('hot');
  const row = i == null ? null : one(`tr[data-i="${i}"]`, host);
  row?.classList.add('hot');
  if (row && scroll) {
    const box = host.parentNode, top = row.offsetTop - box.scrollTop, head = 36;
    if (top < head) box.scrollTop = row.offsetTop - head;
    else if (top + row.offsetHeight > box.clientHeight) box.scrollTop = row.offsetTop + row.offsetHeight - box.clientHeight;
  }
}
