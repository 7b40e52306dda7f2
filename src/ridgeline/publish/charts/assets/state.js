/* The address bar is the state. `decode(encode(v))` gives v back; only what differs from the defaults is written;
   what is not understood is reported, never swallowed. */

const text0 = address => address.replace(/^[#?]/, '');

/** fields: name → {fallback, parse(text) → value or undefined when it makes no sense, print(value) → text}. A field
    that is `many` holds a list of texts and stands in the address once for each. */
export function decode(hash, fields) {
  const state = {}, notices = [];
  for (const [name, field] of Object.entries(fields)) state[name] = field.fallback;
  for (const [name, text] of new URLSearchParams(text0(hash))) {
    if (!Object.hasOwn(fields, name)) { notices.push(`“${name}” is not a setting of this page`); continue; }
    const value = fields[name].many ? [...state[name], text] : fields[name].parse(text);
    if (value === undefined) notices.push(`“${name}” has no value “${text}” here`);
    else state[name] = value;
  }
  return { state, notices };
}

export function encode(state, fields) {
  const out = new URLSearchParams();
  for (const [name, field] of Object.entries(fields)) {
    const text = field.print(state[name]);
    if (text === field.print(field.fallback)) continue;
    for (const one of field.many ? state[name] : [text]) out.append(name, one);
  }
  return out.toString();
}

export const choice = (options, fallback) => ({ fallback, parse: text => (options.includes(text) ? text : undefined), print: value => value ?? '' });
export const numeric = { fallback: null, parse: text => (text.trim() !== '' && Number.isFinite(+text) && +text >= 0 ? +text : undefined), print: value => (value == null ? '' : String(+value.toPrecision(12))) };
/** A set of names from `options`; null means the page's own choice, an empty set is written as `none`. */
export const subset = options => ({
  fallback: null,
  parse: text => {
    if (text === 'none') return [];
    const names = text.split(',').map(decodeURIComponent);
    return names.every(name => options.includes(name)) ? names : undefined;
  },
  print: value => (value == null ? '' : value.length ? value.map(encodeURIComponent).join(',') : 'none'),
});
/** A box on the plot, in values of its axes; null: the whole plot. */
export const box = {
  fallback: null,
  parse: text => {
    const values = text.split('_').map(Number), [x0, x1, y0, y1] = values;
    return values.length === 4 && values.every(Number.isFinite) && x0 <= x1 && y0 <= y1 ? { x: [x0, x1], y: [y0, y1] } : undefined;
  },
  print: value => (value ? [...value.x, ...value.y].map(v => +v.toPrecision(5)).join('_') : ''),
};
