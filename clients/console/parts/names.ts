/** Converts identifiers to readable text. */

/** Splits a job type into its parts: `imageRemoveBackground` → `Image`, `remove background`. */
export function splitType(type: string): { kind: string; action: string } {
  const [first = '', ...rest] = splitWords(type);
  const kind = first === 'sfx' ? 'Sound effect' : first.charAt(0).toUpperCase() + first.slice(1);
  return { kind, action: rest.join(' ') };
}

/** Formats a job type: `imageRemoveBackground` → `Image · remove background`. */
export function formatType(type: string): string {
  const { kind, action } = splitType(type);
  return action === '' ? kind : `${kind} · ${action}`;
}

/**
 * Converts a job type to the path of its endpoint below /studio: `imageRemoveBackground` →
 * `image/remove-background`.
 */
export function toEndpointPath(type: string): string {
  if (type === 'pipeline') return 'pipelines';
  const [first = '', ...rest] = splitWords(type);
  return `${first}/${rest.join('-')}`;
}

const splitWords = (type: string): string[] =>
  type.split(/(?=[A-Z])/).map((word) => word.toLowerCase());

/** Converts an identifier to words: `job.cancel_requested` → `job cancel requested`. */
export const toWords = (name: string): string => name.replaceAll(/[_.]/g, ' ');
