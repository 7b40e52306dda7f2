/* Elements, numbers, clipboard, notices. Nothing here builds HTML from text: every string ends as a text node or an
   attribute, so a hostile name in the data stays a name. Styles go through classes or CSSOM (the page's policy refuses
   style attributes). */
const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'g', 'path', 'line', 'rect', 'text', 'tspan', 'defs', 'pattern', 'circle']);

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** el('td', {class: 'num'}, 'text', node, …) → element. Attributes that are null, undefined or false are left out. */
export function el(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value != null && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(2).filter(child => child != null && child !== false));
  return node;
}

export const vars = (node, properties) => {
  for (const [name, value] of Object.entries(properties)) node.style.setProperty(name, value);
  return node;
};

const writers = new Map(); // making one costs more than using it a thousand times
/** Four significant places at most, thousands grouped, a true minus. `—` never appears: callers say why a value is missing. */
export function number(value, digits) {
  const size = Math.abs(value);
  const places = digits ?? (Number.isInteger(value) && size < 1e6 ? 0 : size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : size >= 0.01 ? 3 : size === 0 ? 0 : 5);
  const least = digits ?? 0, key = least * 100 + places;
  if (!writers.has(key)) writers.set(key, new Intl.NumberFormat('en-US', { minimumFractionDigits: least, maximumFractionDigits: places }));
  return writers.get(key).format(value).replace('-', '−');
}

/** A tick on an axis whose largest tick is `top`: 15k, 2.5M, 0.4. One unit per axis. */
export function tickText(value, top) {
  if (value === 0) return '0';
  return top >= 1e6 ? `${number(value / 1e6)}M` : top >= 1e4 ? `${number(value / 1e3)}k` : number(value);
}

/** A value as people read it: a ratio in percent, everything else in its unit. */
export const figureText = (value, { unit }, digits) => (unit === 'ratio' ? number(100 * value, digits ?? 1) : number(value, digits));
export const figureUnit = ({ unit }) => (unit === 'ratio' ? '%' : unit);

/** [number, unit] of a value that stands alone: short times in milliseconds. */
export const figure = (value, measure) => (measure.unit === 's' && value !== 0 && Math.abs(value) < 1 ? [number(1000 * value), 'ms'] : [figureText(value, measure), figureUnit(measure)]);

/** Decimals for a column of numbers, so that they line up: from the largest of them. */
export function decimals(values) {
  const top = Math.max(...values.map(Math.abs), 0);
  if (values.every(Number.isInteger)) return 0;
  return top >= 1000 ? 0 : top >= 100 ? 1 : top >= 1 ? 2 : 3;
}

const pen = document.createElement('canvas').getContext('2d');
/** Width in px of one line of 12 px text, measured with the font in use (fonts differ by a fifth). */
export function textWidth(text, weight = 600, size = 12) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

let toastTimer;
export function toast(message) {
  let box = one('.toast');
  if (!box) document.body.append(box = el('div', { class: 'toast', role: 'status' }));
  box.textContent = message;
  requestAnimationFrame(() => box.classList.add('on'));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove('on'), 2000);
}

/** Copy text. Files opened from disk may have no clipboard interface: the selection way is tried second. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el('textarea', { class: 'sr', readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (!done) return toast('The browser refused the clipboard. Select the text and copy it by hand.');
  }
  return toast(`${what} copied`);
}

export const copyButton = (text, what) =>
  el('button', { class: 'link-btn', type: 'button', 'aria-label': `Copy: ${what}`, onclick: () => copy(text, what) }, 'Copy');
