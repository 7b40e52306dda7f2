/* A drawn chart as a picture of its own: SVG text in which every colour is sRGB and every style stands at its element,
   with the question above and where it came from below; or the same as PNG. */
import { el, one, textWidth, vars } from './dom.js';
import { markNodes } from './marks.js';

const KEPT = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linecap', 'stroke-linejoin', 'paint-order', 'opacity', 'font-size', 'font-weight', 'letter-spacing', 'text-anchor'];
const HEAD = 62, FOOT = 34, SIDE = 16;

const dot = document.createElement('canvas');
dot.width = dot.height = 1;
const ink = dot.getContext('2d', { willReadFrequently: true });
const known = new Map(); // colours as the style sheet computes them → sRGB that every viewer knows
function srgb(colour) {
  if (!known.has(colour)) {
    ink.clearRect(0, 0, 1, 1);
    ink.fillStyle = 'transparent';
    ink.fillStyle = colour;
    ink.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = ink.getImageData(0, 0, 1, 1).data;
    known.set(colour, a ? [`rgb(${r},${g},${b})`, a / 255] : ['none', 1]);
  }
  return known.get(colour);
}

function dress(from, to) {
  const style = getComputedStyle(from);
  for (const name of KEPT) {
    let value = style.getPropertyValue(name);
    if (!value || value === 'normal' || value === 'auto') continue;
    if ((name === 'fill' || name === 'stroke') && value !== 'none' && !value.startsWith('url')) {
      const [colour, alpha] = srgb(value);
      value = colour;
      if (alpha < 1) to.setAttribute(`${name}-opacity`, alpha.toFixed(2));
    }
    to.setAttribute(name, value.replace(/url\(["']?[^#"')]*#([^"')]+)["']?\)/, 'url(#$1)'));
  }
  to.removeAttribute('style');
  to.removeAttribute('class');
  [...from.children].forEach((child, k) => dress(child, to.children[k]));
}

/* What a variable of the style sheet comes to in the theme the reader sees. */
function token(name) {
  const probe = document.body.appendChild(vars(el('span', { hidden: true }), { color: `var(${name})` })), colour = getComputedStyle(probe).color;
  probe.remove();
  return srgb(colour)[0];
}

/* Every drawn series with its mark: labels beside the lines find room for some only. */
function legend(series, width) {
  const group = el('g', { class: 'chart' });
  let x = 0, y = 0;
  for (const s of series) {
    const name = `${s.name}${s.source === 'measured' ? '' : ` (${s.source})`}${s.overlay ? ` (unofficial: ${s.overlay})` : ''}`, wide = textWidth(name, 400) + 36;
    if (x && x + wide > width) { x = 0; y += 20; }
    group.append(el('g', {}, markNodes(s, x + 6, y, 4.7, s)), el('text', { x: x + 18, y: y + 4 }, name));
    x += wide;
  }
  return { group, height: y + 20 };
}

/** chart: the drawn svg; series: those it shows; words: {title, sub, foot}. → SVG text. */
export function still(chart, series, { title, sub, foot }) {
  const W = chart.width.baseVal.value, H = chart.height.baseVal.value, body = getComputedStyle(document.body);
  const copy = chart.cloneNode(true);
  dress(chart, copy);
  const names = legend(series, W - 24), seen = one('#plot').appendChild(el('svg', { width: 1, height: 1 }, names.group)), key = names.group.cloneNode(true);
  dress(names.group, key);
  seen.remove();
  key.setAttribute('transform', `translate(${SIDE + 12} ${HEAD + H + 14})`);
  for (const [name, value] of Object.entries({ x: SIDE, y: HEAD, width: W, height: H })) copy.setAttribute(name, value);
  for (const name of ['role', 'tabindex']) copy.removeAttribute(name);
  const all = H + HEAD + names.height + FOOT, text = (y, size, weight, fill, words) => el('text', { x: SIDE + 12, y, 'font-size': size, 'font-weight': weight, fill }, words);
  const whole = el('svg', { xmlns: 'http://www.w3.org/2000/svg', width: W + 2 * SIDE, height: all, viewBox: `0 0 ${W + 2 * SIDE} ${all}`, 'font-family': body.fontFamily },
    el('rect', { width: '100%', height: '100%', fill: token('--surface') }),
    text(28, 15, 600, token('--ink'), title), text(48, 12, 400, token('--ink-2'), sub), copy, key, text(all - 14, 11, 400, token('--ink-3'), foot));
  return new XMLSerializer().serializeToString(whole);
}

/** SVG text → PNG, at twice the size of the screen. */
export async function png(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise(done => { canvas.toBlob(done, 'image/png'); });
}

/** Hand a blob to the reader as a file. */
export function download(blob, name) {
  const link = el('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
