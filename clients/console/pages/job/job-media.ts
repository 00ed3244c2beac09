/**
 * Finds the media files in a job's result by searching all its fields for file URLs, because each
 * capability has its own field names.
 */
import type { Job } from '../../gateway/client.ts';

/** Stored file, such as the media of a result. */
export interface Media {
  url: string;
  kind: 'image' | 'video' | 'audio' | 'file';
  caption: string;
  /** Name of the tool that signed the file's origin, e.g. `gateway`. Undefined if nothing did. */
  credentials?: string;
  /** Time until which the URL is valid, as an ISO 8601 string. */
  expiresAt: string | null;
}

const mediaKinds = ['image', 'video', 'audio'] as const;
const kindByExtension: Record<string, Media['kind']> = {
  png: 'image',
  jpg: 'image',
  jpeg: 'image',
  webp: 'image',
  gif: 'image',
  mp4: 'video',
  webm: 'video',
  mov: 'video',
  mp3: 'audio',
  wav: 'audio',
  m4a: 'audio',
  ogg: 'audio',
};

/** Returns the media files of a result, without duplicates. */
export function listMedia({ result }: Pick<Job, 'result'>): Media[] {
  const media = new Map<string, Media>();
  visitTexts(result, (parent, text) => {
    const kind = detectKind(text, parent['contentType']);
    if (!kind || media.has(text)) return;
    const { expiresAt, contentCredentials } = parent;
    media.set(text, {
      url: text,
      kind,
      caption: formatCaption(parent),
      ...(typeof contentCredentials === 'string' && { credentials: contentCredentials }),
      expiresAt: typeof expiresAt === 'string' ? expiresAt : null,
    });
  });
  return [...media.values()];
}

/** Calls `visit` for each string in a JSON value, with the object that contains the string. */
function visitTexts(
  value: unknown,
  visit: (parent: Record<string, unknown>, text: string) => void,
): void {
  if (Array.isArray(value)) for (const item of value) visitTexts(item, visit);
  if (!isRecord(value)) return;
  for (const field of Object.values(value)) {
    if (typeof field === 'string') visit(value, field);
    else visitTexts(field, visit);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function detectKind(text: string, contentType: unknown): Media['kind'] | undefined {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  const extension = new URL(text).pathname.split('.').at(-1) ?? '';
  return findMediaKind(contentType) ?? kindByExtension[extension.toLowerCase()];
}

/** Returns the kind of a content type, or undefined if it is no media type. */
export function findMediaKind(contentType: unknown): Media['kind'] | undefined {
  return mediaKinds.find((kind) => String(contentType).startsWith(`${kind}/`));
}

function formatCaption({ width, height, durationSeconds }: Record<string, unknown>): string {
  if (typeof width === 'number' && typeof height === 'number') return `${width} × ${height}`;
  return typeof durationSeconds === 'number' ? `${durationSeconds.toFixed(1)} s` : '';
}

/** Returns the text of the messages of a response. */
function findOutputText(items: readonly unknown[]): string {
  const texts = items
    .filter(isRecord)
    .flatMap(({ content }) => (Array.isArray(content) ? content : []));
  return texts
    .filter(isRecord)
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('');
}

/** Returns the text of a transcript or of an answer, or null if the result has no text. */
export function findTranscript(result: Record<string, unknown>): string | null {
  const { text, content, output } = result;
  if (Array.isArray(output)) return findOutputText(output);
  return typeof text === 'string' ? text : typeof content === 'string' ? content : null;
}
