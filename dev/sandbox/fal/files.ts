/** Serves the media of finished requests. Media that are no longer cached are generated again. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { sendJson, type Exchange } from '../http.ts';
import { findFault, firstHalf, applyMediaFault, type Fault } from '../faults.ts';
import type { Media } from '../media/media.ts';
import type { FalFile, Generated } from './endpoint.ts';
import type { FalRequest, RequestStore } from './requests.ts';

const cacheBytesMax = 192 * 1024 * 1024;
/** URL of files with the fault `private-url`: the metadata address of cloud providers. */
const privateUrl = 'http://169.254.169.254/latest/meta-data/';

interface FileCdnOptions {
  store: RequestStore;
  /** Returns the base of file URLs, without a trailing slash. */
  filesUrl: () => string;
  /** Generates the media of a request; always with the same result. */
  generate: (request: FalRequest) => Promise<Generated>;
}

/** Cache of the newest media, limited by their total size. */
class MediaCache {
  readonly #entries = new Map<string, Media[]>();
  #sizeBytes = 0;

  get(requestId: string): Media[] | undefined {
    return this.#entries.get(requestId);
  }

  set(requestId: string, media: Media[]): void {
    if (this.#entries.has(requestId)) return;
    this.#entries.set(requestId, media);
    this.#sizeBytes += totalBytes(media);
    for (const [oldest, old] of this.#entries) {
      if (this.#sizeBytes <= cacheBytesMax || oldest === requestId) break;
      this.#entries.delete(oldest);
      this.#sizeBytes -= totalBytes(old);
    }
  }
}

function totalBytes(media: Media[]): number {
  return media.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

function fileName(requestId: string, index: number, extension: string): string {
  const hash = createHash('sha256').update(`${requestId}/${index}`).digest('base64url');
  return `${hash.slice(0, 21)}.${extension}`;
}

function buildUrl(
  request: FalRequest,
  media: Media,
  location: { index: number; filesUrl: string },
): string {
  if (findFault(request.faults, 'private-url')) return privateUrl;
  const { body } = request;
  const inline = typeof body === 'object' && body !== null && 'sync_mode' in body && body.sync_mode;
  if (inline === true) return `data:${media.contentType};base64,${media.bytes.toString('base64')}`;
  const name = fileName(request.requestId, location.index, media.extension);
  return `${location.filesUrl}/${request.requestId}-${location.index}/${name}`;
}

function buildFile(media: Media, url: string, name: string): FalFile {
  const { contentType, bytes, width, height, video } = media;
  return {
    url,
    content_type: contentType,
    file_name: name,
    file_size: bytes.length,
    width,
    height,
    ...(video && {
      duration: video.durationSeconds,
      fps: video.fps,
      num_frames: video.frames,
    }),
  };
}

/** Applies the fault `truncated-media`: announces the full length, sends half of the bytes, and closes the connection. */
function sendHalf({ request, response }: Exchange, { bytes, contentType }: Media): void {
  response.writeHead(200, { 'Content-Type': contentType, 'Content-Length': bytes.length });
  response.write(firstHalf(bytes), () => request.socket.destroy());
}

function send(exchange: Exchange, bytes: Buffer, contentType: string): void {
  exchange.response.writeHead(200, { 'Content-Type': contentType, 'Content-Length': bytes.length });
  exchange.response.end(exchange.request.method === 'HEAD' ? undefined : bytes);
}

const paddingChunk = Buffer.alloc(1024 * 1024);

/** Applies the fault `big`: appends a `free` box (ISO/IEC 14496-12), which players skip, to the video. */
function sendPadded(exchange: Exchange, media: Media, big: Fault): void {
  const paddingBytes = Number.parseInt(big.argument, 10) * paddingChunk.length;
  const header = Buffer.alloc(8);
  header.writeUInt32BE(paddingBytes + header.length);
  header.write('free', 4, 'latin1');
  function* parts(): Generator<Buffer> {
    yield media.bytes;
    yield header;
    for (let sent = 0; sent < paddingBytes; sent += paddingChunk.length) yield paddingChunk;
  }
  const { response } = exchange;
  const length = media.bytes.length + header.length + paddingBytes;
  response.writeHead(200, { 'Content-Type': media.contentType, 'Content-Length': length });
  // A caller may disconnect.
  pipeline(Readable.from(parts()), response).catch(() => {});
}

function sendMedia(exchange: Exchange, media: Media, faults: readonly Fault[]): void {
  const big = findFault(faults, 'big');
  if (big && exchange.request.method !== 'HEAD') {
    sendPadded(exchange, media, big);
    return;
  }
  const truncated = findFault(faults, 'truncated-media');
  const isBroken = truncated && truncated.argument !== 'silent';
  if (isBroken && exchange.request.method !== 'HEAD') sendHalf(exchange, media);
  else send(exchange, applyMediaFault(media.bytes, faults), media.contentType);
}

/** Creates the file server. */
export function createFileCdn({ store, filesUrl, generate }: FileCdnOptions) {
  const cache = new MediaCache();
  return {
    /** Caches a request's media, and returns their File objects. */
    publish: (request: FalRequest, media: Media[]): FalFile[] => {
      cache.set(request.requestId, media);
      return media.map((one, index) => {
        const url = buildUrl(request, one, { index, filesUrl: filesUrl() });
        return buildFile(one, url, fileName(request.requestId, index, one.extension));
      });
    },
    serve: async (exchange: Exchange): Promise<void> => {
      const { requestId = '', index = '', name } = exchange.params;
      const request = store.get(requestId);
      const notFound = { status: 404, body: { detail: 'File not found' } };
      if (request?.outcome?.status !== 200 || findFault(request.faults, 'dead-url')) {
        sendJson(exchange, notFound);
        return;
      }
      const media = cache.get(requestId) ?? (await generate(request)).media;
      cache.set(requestId, media);
      const file = media[Number(index)];
      if (file && name === fileName(requestId, Number(index), file.extension)) {
        sendMedia(exchange, file, request.faults);
      } else {
        sendJson(exchange, notFound);
      }
    },
  };
}

/** File server for media. */
export type FileCdn = ReturnType<typeof createFileCdn>;
