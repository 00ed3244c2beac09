/** Finds the media URLs in job results and downloads the files. */
import { createWriteStream } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CliError } from './api-client.ts';

/** Value of `--out` for the standard output. */
export const standardOutput = '-';

/** Names of the result fields that contain a file URL (spec §4.7–4.10). */
const urlFields = new Set(['url', 'coverUrl']);

/** Returns the file URLs in a result, in order and without duplicates. */
export function findMediaUrls(result: unknown): string[] {
  const urls: string[] = [];
  const visit = (value: unknown, field: string): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, field);
    else if (typeof value === 'object' && value !== null) {
      const isBatchItem = 'success' in value && 'index' in value;
      for (const [name, inner] of Object.entries(value)) {
        visit(inner, isBatchItem && name === 'data' ? 'url' : name);
      }
    } else if (typeof value === 'string' && urlFields.has(field) && /^https?:/.test(value)) {
      urls.push(value);
    }
  };
  visit(result, '');
  return [...new Set(urls)];
}

/**
 * Downloads files. `out` is a directory if it ends in a slash or such a directory exists, and
 * otherwise a file name. A directory receives each file under the name with which the gateway serves
 * it; with a file name, several files get a number before the extension: `cat-1.png`. With `-`, one
 * file is written to the standard output.
 * @returns the paths of the saved files
 * @throws CliError if a file cannot be downloaded, or several files are to be written to `-`
 */
export async function saveMedia(urls: readonly string[], out: string): Promise<string[]> {
  if (out === standardOutput) {
    const [url] = urls;
    if (urls.length > 1 || url === undefined)
      throw new CliError(`--out - writes one file, but the result has ${urls.length}.`);
    await save(await open(url), process.stdout);
    return [];
  }
  const isDirectory = out.endsWith('/') || (await stat(out).catch(() => null))?.isDirectory();
  if (isDirectory) await mkdir(out, { recursive: true });
  const savedPaths: string[] = [];
  for (const [index, url] of urls.entries()) {
    const response = await open(url);
    const path = isDirectory
      ? join(out, readFilename(response))
      : buildNumberedPath(out, urls.length > 1 ? index + 1 : null);
    await save(response, createWriteStream(path));
    savedPaths.push(path);
  }
  return savedPaths;
}

function buildNumberedPath(path: string, number: number | null): string {
  if (number === null) return path;
  const extension = extname(path);
  return `${path.slice(0, path.length - extension.length)}-${number}${extension}`;
}

/** Returns the name of a file: that of the header Content-Disposition, or that of its URL. */
function readFilename({ headers, url }: Response): string {
  const header = headers.get('content-disposition') ?? '';
  const [, encoded] = /filename\*=UTF-8''([\w%.-]+)/.exec(header) ?? [];
  const [, plain] = /filename="?([^";]+)/.exec(header) ?? [];
  const name = encoded ? decodeURIComponent(encoded) : (plain ?? basename(new URL(url).pathname));
  return name.replaceAll(/[^\p{L}\p{N}_.-]/gu, '_') || 'file';
}

async function open(url: string): Promise<Response> {
  const response = await fetch(url);
  if (response.ok) return response;
  throw new CliError(`could not download a result: HTTP ${response.status}`);
}

async function save({ body }: Response, to: NodeJS.WritableStream): Promise<void> {
  if (body) await pipeline(Readable.fromWeb(body), to, { end: to !== process.stdout });
}
