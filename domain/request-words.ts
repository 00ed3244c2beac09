/** Words of a refusal: what was sent, what is allowed, and what was probably meant. */
import { createNearest } from './nearest.ts';

const shownMax = 40;
/** How keys and secrets of this and of other services begin. */
const secret = /gk_live_|\bsk-|\bwhsec_|\bbearer\s/i;
const url = /^[a-z][\w+.-]*:/i;

/** What was sent, shortened; nothing of a secret, and of a URL neither its query nor a password in it. */
function shown(value: unknown): string {
  if (typeof value === 'string') return shownText(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function shownText(text: string): string {
  const head = text.slice(0, 4 * shownMax);
  if (secret.test(head)) return 'a secret';
  const open = url.test(head) ? head.replace(/\?.*$/s, '?…').replace(/\/\/[^/]*@/, '//…@') : head;
  const characters = Array.from(open);
  const isShort = characters.length <= shownMax && head.length === text.length;
  return JSON.stringify(isShort ? open : `${characters.slice(0, shownMax).join('')}…`);
}

/** ` (got "hihg"; did you mean high?)`: the end of a refusal. */
export function got(given: unknown, names: readonly string[] = []): string {
  const [near] = typeof given === 'string' ? createNearest(names)(given) : [];
  return ` (got ${shown(given)}${near === undefined ? '' : `; did you mean ${near}?`})`;
}

/** `must be one of low, high (got "hihg"; did you mean high?)` */
export function notOneOf(allowed: readonly (string | number)[], given: unknown): string {
  const names = allowed.map(String);
  return `must be one of ${names.join(', ')}${got(given, names)}`;
}
