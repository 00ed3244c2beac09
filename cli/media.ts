/** Media of job results: finds their URLs and saves the files. */
import { createWriteStream } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CliError } from './api-client.ts';

/** Fields of results that contain the URL of a file (spec §4.7–4.10). */
const urlFields = new Set(['url', 'coverUrl']);

/** Lists the URLs of the files in a result, each once, in their order. */
export function mediaUrls(result: unknown): string[] {
  const found: string[] = [];
  const visit = (value: unknown, field: string): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, field);
    else if (typeof value === 'object' && value !== null) {
      const batchItem = 'success' in value && 'index' in value;
      for (const [name, inner] of Object.entries(value)) {
        visit(inner, batchItem && name === 'data' ? 'url' : name);
      }
    } else if (typeof value === 'string' && urlFields.has(field) && /^https?:/.test(value)) {
      found.push(value);
    }
  };
  visit(result, '');
  return [...new Set(found)];
}

/**
 * Downloads files. `out` is a directory (it exists, or `out` ends in a slash) or a file name; the
 * names of several files have a number before the extension.
 * @returns the paths of the files
 */
export async function saveMedia(urls: readonly string[], out: string): Promise<string[]> {
  const isDirectory = out.endsWith('/') || (await stat(out).catch(() => null))?.isDirectory();
  if (isDirectory) await mkdir(out, { recursive: true });
  const saved: string[] = [];
  for (const [index, url] of urls.entries()) {
    const name = basename(new URL(url).pathname).replaceAll(/[^\w.-]/g, '_') || 'file';
    const path = isDirectory
      ? join(out, name)
      : numberedPath(out, urls.length > 1 ? index + 1 : null);
    await download(url, path);
    saved.push(path);
  }
  return saved;
}

function numberedPath(path: string, number: number | null): string {
  if (number === null) return path;
  const extension = extname(path);
  return `${path.slice(0, path.length - extension.length)}-${number}${extension}`;
}

async function download(url: string, path: string): Promise<void> {
  const response = await fetch(url);
  if (!response.ok || !response.body) {
    throw new CliError(`download of a result failed: HTTP ${response.status}`);
  }
  await pipeline(Readable.fromWeb(response.body), createWriteStream(path));
}
