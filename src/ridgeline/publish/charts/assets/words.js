/* The words of a page: how a state, a point and an axis are called. One place, so that plot, table, drawer and spoken
   text agree. */
import { el, number } from './dom.js';

export const GLYPH = { degraded: '⊘', unproven: '?', invalid: '✕', failed: '✕' };

export const badge = (text, kind = '', title = null) => el('span', { class: `badge ${kind}`, title }, text);

/** The badge of where a point came from: plain when measured, hatched when not. */
export const sourceBadge = source => badge(source, source === 'measured' ? '' : 'hatch', source === 'measured' ? null : NOT_MEASURED[source]);

export const NOT_MEASURED = {
  emulated: 'No GPU took part: the engine is a model, answering in real time.',
  predicted: 'No GPU took part: the engine is a model, run in virtual time.',
};

export const validityBadge = point => {
  if (point.validity === 'valid') return null;
  const kind = { degraded: 'bad', unproven: 'outline', invalid: '' }[point.validity] ?? '';
  return badge(`${GLYPH[point.validity] ?? ''} ${point.validity}`, kind, point.reasons.join('\n') || null);
};

export const cautionBadges = point => point.cautions.map(c => badge(`▲ ${c.code}`, 'warn', c.message));
/** One badge where room is short: the code, or how many there are. */
export const cautionBadge = ({ cautions }) => (cautions.length ? badge(cautions.length === 1 ? `▲ ${cautions[0].code}` : `▲ ${cautions.length} cautions`, 'warn', cautions.map(c => `${c.code}: ${c.message}`).join('\n')) : null);

/** What stands where a value is missing; the reason is in the tooltip and in the drawer. */
export const absent = (point, key) => el('span', { class: 'none', title: why(point, key) }, 'not measured');
export const why = (point, key) => point.why[key] ?? 'The run has no such value for this point.';

export const shortName = point => `${point.arm} · c${point.c}`;
export const direction = better => ({ higher: '↑ more is better', lower: '↓ less is better' })[better] ?? 'no direction';
export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? '' : 's'}`;
