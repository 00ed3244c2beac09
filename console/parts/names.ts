/** Texts for people instead of identifiers. */

/** Converts a job type: `imageRemoveBackground` → `Image · remove background`. */
export function typeText(type: string): string {
  const [first = '', ...rest] = type.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
  const kind = first === 'sfx' ? 'Sound effect' : first.charAt(0).toUpperCase() + first.slice(1);
  return rest.length === 0 ? kind : `${kind} · ${rest.join(' ')}`;
}

const tailLength = 8;

/** Shortens an id to its end, because the beginnings of ids are alike: `…66f776d8`. */
export const idTail = (id: string): string => `…${id.slice(-tailLength)}`;

/** Converts an identifier to words: `job.cancel_asked` → `job cancel asked`. */
export const wordsOf = (name: string): string => name.replaceAll(/[_.]/g, ' ');
