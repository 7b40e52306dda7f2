/* A box drawn over the plot with the pointer: what lies in it is what the table shows. */
import { el } from './dom.js';

const LEAST = 8; // px: less than that was a click

/** svg: the plot; area: {left, right, top, bottom}; x, y: scales; done({x: [from, to], y: [from, to]}) when a box was
    drawn. → function(box or null) that shows one. */
export function brush(svg, area, x, y, done) {
  const frame = el('rect', { class: 'brush', visibility: 'hidden' });
  svg.append(frame);
  const place = (x0, y0, x1, y1) => {
    for (const [name, value] of Object.entries({ x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.abs(x1 - x0), height: Math.abs(y1 - y0), visibility: 'visible' })) frame.setAttribute(name, value);
  };
  const inside = (value, low, high) => Math.min(high, Math.max(low, value));
  let drawn = false; // the click that ends a drag opens nothing
  svg.addEventListener('pointerdown', event => {
    drawn = false;
    if (event.button || event.pointerType === 'touch' || event.target.closest('.limit-handle')) return;
    const box = svg.getBoundingClientRect(), at = e => [inside(e.clientX - box.left, area.left, area.right), inside(e.clientY - box.top, area.top, area.bottom)], [x0, y0] = at(event);
    const move = e => {
      const [x1, y1] = at(e);
      if (!drawn && Math.hypot(x1 - x0, y1 - y0) < LEAST) return;
      if (!drawn) svg.setPointerCapture(event.pointerId);
      drawn = true;
      place(x0, y0, x1, y1);
    };
    const stop = e => {
      svg.removeEventListener('pointermove', move);
      if (!drawn) return;
      const [x1, y1] = at(e), ordered = (a, b) => (a < b ? [a, b] : [b, a]);
      done({ x: ordered(x.invert(x0), x.invert(x1)), y: ordered(y.invert(y0), y.invert(y1)) });
    };
    svg.addEventListener('pointermove', move);
    svg.addEventListener('pointerup', stop, { once: true });
  });
  svg.addEventListener('click', event => { if (drawn) event.stopImmediatePropagation(); }, { capture: true });
  return box => {
    if (!box) frame.setAttribute('visibility', 'hidden');
    else place(inside(x(box.x[0]), area.left, area.right), inside(y(box.y[0]), area.top, area.bottom), inside(x(box.x[1]), area.left, area.right), inside(y(box.y[1]), area.top, area.bottom));
  };
}
