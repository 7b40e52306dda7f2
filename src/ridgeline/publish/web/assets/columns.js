/* The binary answer of the timeline (see web/timeline.py) as typed arrays over the bytes as they came. */
const KINDS = { '<i4': Int32Array, '|u1': Uint8Array, '<u1': Uint8Array };

export function columns(buffer) {
  const view = new DataView(buffer), decoder = new TextDecoder();
  if (decoder.decode(new Uint8Array(buffer, 0, 4)) !== 'RLT1') throw new Error('The answer is no timeline.');
  const length = view.getUint32(4, true), header = JSON.parse(decoder.decode(new Uint8Array(buffer, 8, length)));
  let at = 8 + length;
  const out = {};
  for (const [name, kind] of header.columns) {
    const array = new KINDS[kind](buffer, at, header.count);
    out[name] = array;
    at += array.byteLength + ((8 - (array.byteLength % 8)) % 8);
  }
  return { header, ...out };
}

/** Index of the first value >= wanted in array[from, to), which rises. */
export function firstAtLeast(array, wanted, from, to) {
  let low = from, high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

/** Groups of rows: requests are sorted by lane, row and time, so each (lane, row) is one stretch. */
export function stretches({ lane, row, header }) {
  const out = new Map();
  for (let i = 0; i < header.count;) {
    let j = i + 1;
    while (j < header.count && lane[j] === lane[i] && row[j] === row[i]) j++;
    out.set(`${lane[i]}.${row[i]}`, [i, j]);
    i = j;
  }
  return out;
}
