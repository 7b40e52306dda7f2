/* The question at the top, as a sentence whose slots are buttons. A slot with one option only is plain text. */
import { all, el, number, one, vars } from './dom.js';

let open = null; // {pop, button}

export function closePopover(refocus = false) {
  if (!open) return;
  const { pop, button } = open;
  open = null;
  pop.remove();
  button.setAttribute('aria-expanded', 'false');
  if (refocus) button.focus();
}

/** parts: strings and slots {name, text, badge?, options: [{id, name, note, direction, disabled, card}], current, pick(id)}. */
export function sentence(host, parts) {
  const focused = document.activeElement?.dataset?.slot;
  host.replaceChildren(...parts.map(part => (typeof part === 'string' ? part : slot(part))));
  if (focused) one(`[data-slot="${focused}"]`, host)?.focus({ preventScroll: true });
}

function slot(part) {
  if (part.options.length < 2 && !part.options[0]?.card) return el('b', { class: 'fixed' }, part.text);
  const button = el('button', { class: 'slot', type: 'button', 'data-slot': part.name, 'aria-haspopup': 'listbox', 'aria-expanded': 'false' }, part.text);
  button.addEventListener('click', event => {
    event.stopPropagation();
    const mine = open?.button === button;
    closePopover();
    if (!mine) popover(button, part);
  });
  button.addEventListener('keydown', event => { if (event.key === 'ArrowDown') { event.preventDefault(); button.click(); } });
  return button;
}

function popover(button, part) {
  const card = el('div', { class: 'formula' }), list = el('ul', { role: 'listbox', 'aria-label': part.title });
  const pop = el('div', { class: 'pop' }, list, card);
  const show = option => { card.hidden = !option?.card; card.replaceChildren(...(option?.card ?? [])); };
  for (const option of part.options) {
    const item = el('li', { role: 'option', tabindex: -1, 'data-id': option.id, 'aria-selected': String(option.id === part.current), 'aria-disabled': option.disabled ? 'true' : null },
      el('span', { 'aria-hidden': 'true', class: 'tickmark' }, option.id === part.current ? '✓' : ''), el('span', {}, option.name), el('span', { class: 'dir' }, option.direction ?? ''), option.note ? el('small', {}, option.note) : null);
    const pick = () => { if (option.disabled) return; closePopover(true); part.pick(option.id); };
    item.addEventListener('click', pick);
    item.addEventListener('pointerenter', () => show(option));
    item.addEventListener('focus', () => show(option));
    item.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); pick(); } });
    list.append(item);
  }
  show(part.options.find(o => o.id === part.current));
  document.body.append(pop);
  const box = button.getBoundingClientRect(), room = innerHeight - box.bottom - 20;
  vars(pop, { top: `${box.bottom + scrollY + 6}px`, left: `${Math.max(12, Math.min(box.left - 8, innerWidth - pop.offsetWidth - 12))}px`, 'max-height': `${Math.max(260, room)}px` });
  button.setAttribute('aria-expanded', 'true');
  open = { pop, button };
  (one('[aria-selected=true]', list) ?? list.firstChild).focus({ preventScroll: true });
  pop.addEventListener('click', event => event.stopPropagation());
  pop.addEventListener('keydown', event => {
    const items = all('li:not([aria-disabled])', list), k = items.indexOf(document.activeElement);
    const to = { ArrowDown: k + 1, ArrowUp: k - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) { event.preventDefault(); items[to % items.length].focus(); }
    if (event.key === 'Escape') { event.stopPropagation(); closePopover(true); }
    if (event.key === 'Tab') closePopover(true);
  });
}

/** The formula card of a metric: what it is, how it is computed, where it comes from, what to mind. */
export const formulaCard = measure => [
  el('p', { class: 'formula-title' }, measure.label, measure.unit ? el('span', { class: 'faint' }, `  ${measure.unit}`) : null),
  measure.formula ? el('p', {}, measure.formula) : null,
  measure.source ? el('p', { class: 'faint' }, `Source: ${measure.source}`) : null,
  measure.pitfalls ? el('p', { class: 'faint' }, `Mind: ${measure.pitfalls}`) : null,
].filter(Boolean);

export const countNote = (have, total) => (have === total ? `${number(have)} points` : `${number(have)} of ${number(total)} points`);

document.addEventListener('click', () => closePopover());
