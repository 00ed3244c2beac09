/**
 * Media of a job's result: all URLs of files in it, because each capability has its own result
 * fields.
 */
import type { Job } from '../../gateway/client.ts';

/** File of a result. */
export interface Media {
  url: string;
  kind: 'image' | 'video' | 'audio';
  caption: string;
}

const kinds: Record<string, Media['kind']> = {
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

/** Lists the files of a result, each once. */
export function mediaOf({ result }: Pick<Job, 'result'>): Media[] {
  const found = new Map<string, Media>();
  visit(result, (holder, value) => {
    const kind = kindOf(value, holder['contentType']);
    if (kind && !found.has(value))
      found.set(value, { url: value, kind, caption: captionOf(holder) });
  });
  return [...found.values()];
}

function visit(
  value: unknown,
  take: (holder: Record<string, unknown>, text: string) => void,
): void {
  if (Array.isArray(value)) for (const each of value) visit(each, take);
  if (!isRecord(value)) return;
  for (const each of Object.values(value)) {
    if (typeof each === 'string') take(value, each);
    else visit(each, take);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function kindOf(text: string, contentType: unknown): Media['kind'] | undefined {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  const end = new URL(text).pathname.split('.').at(-1) ?? '';
  const medium = typeof contentType === 'string' ? contentType.split('/')[0] : undefined;
  if (medium === 'image' || medium === 'video' || medium === 'audio') return medium;
  return kinds[end.toLowerCase()];
}

function captionOf({ width, height, durationSeconds }: Record<string, unknown>): string {
  if (typeof width === 'number' && typeof height === 'number') return `${width} × ${height}`;
  return typeof durationSeconds === 'number' ? `${durationSeconds.toFixed(1)} s` : '';
}

/** Returns the text of a transcription; null if the result has none. */
export function textIn(result: Record<string, unknown>): string | null {
  const { text } = result;
  return typeof text === 'string' ? text : null;
}
