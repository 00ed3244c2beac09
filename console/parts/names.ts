/** Texts for people instead of identifiers. */

/** Converts a job type: `imageRemoveBackground` → `Image · remove background`. */
export function typeText(type: string): string {
  const [first = '', ...rest] = splitType(type);
  const kind = first === 'sfx' ? 'Sound effect' : first.charAt(0).toUpperCase() + first.slice(1);
  return rest.length === 0 ? kind : `${kind} · ${rest.join(' ')}`;
}

/**
 * Converts a job type to the path of its endpoint below /studio: `imageRemoveBackground` →
 * `image/remove-background`.
 */
export function typePath(type: string): string {
  const [first = '', ...rest] = splitType(type);
  return `${first}/${rest.join('-')}`;
}

const splitType = (type: string): string[] =>
  type.split(/(?=[A-Z])/).map((word) => word.toLowerCase());

/** Converts an identifier to words: `job.cancel_asked` → `job cancel asked`. */
export const toWords = (name: string): string => name.replaceAll(/[_.]/g, ' ');
