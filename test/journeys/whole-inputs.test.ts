/**
 * An input from another server is measured whole or not at all: by URL it costs what it costs as an
 * upload, and a part of it never passes as the file.
 */
import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { makeSpeech } from '../harness/media.ts';
import { uploadFile } from '../harness/uploads.ts';

const gateway = useGateway({ media: 'full' });
const stored = (name: string) => readFile(join(import.meta.dirname, '../storage/media', name));
/** Returns an ID3v2 tag of this many bytes, which players skip. */
const tag = (bytes: number): Buffer =>
  Buffer.concat([
    Buffer.from('ID3\x04\0\0', 'latin1'),
    Buffer.from([0, (bytes >> 14) & 127, (bytes >> 7) & 127, bytes & 127]),
    Buffer.alloc(bytes),
  ]);
/** Returns a FLAC of silence at 8 kHz with one sample of each second per frame number. */
function flac(seconds: number): Buffer {
  const info = Buffer.alloc(42);
  info.write('fLaC\x80\0\0\x22', 'latin1');
  info.writeUInt16BE(4000, 8);
  info.writeUInt16BE(4000, 10);
  info.writeUIntBE((8000 << 4) | 0, 18, 3);
  info.writeUInt8(0xf0, 21);
  const frames = Array.from({ length: seconds * 2 }, (_, index) => {
    const head = Buffer.from([0xff, 0xf8, 0x74, 0x08, index, 0x0f, 0x9f]);
    let crc = 0;
    for (const byte of head) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? ((crc << 1) ^ 7) & 255 : crc << 1;
    }
    return Buffer.concat([head, Buffer.from([crc, 0, 0, 0, 0, 0])]);
  });
  return Buffer.concat([info, ...frames]);
}

const estimate = (path: string, body: object) =>
  gateway.call<StudioBody<{ credits: number }>>(`/api/v1/studio/${path}/estimate`, { body });

describe('a recording by URL costs what it costs as an upload', () => {
  const speech = makeSpeech(12);
  it.each<[string, () => Promise<Buffer>]>([
    ['MP3', () => speech],
    ['MP3 with a tag', async () => Buffer.concat([tag(100), await speech])],
    ['MP3 with a tag of 200 kB', async () => Buffer.concat([tag(200_000), await speech])],
    ['MP3 that starts within a frame', async () => (await speech).subarray(300)],
    ['AAC with a tag', async () => Buffer.concat([tag(150_000), await stored('a.aac')])],
    ['FLAC with a tag', async () => Buffer.concat([tag(150_000), flac(20)])],
  ])('%s', async (name, make) => {
    const bytes = await make();
    const { fileId } = await uploadFile(gateway, bytes);
    // A URL with a signature is copied; another one is measured by the provider.
    const audioUrl = gateway.media.put(`/${name}?signature=x`.replaceAll(' ', '-'), bytes);
    const uploaded = await estimate('audio/transcribe', { fileId });
    expect(uploaded.status, uploaded.body.message).toBe(200);
    expect(uploaded.body.data.credits).toBeGreaterThan(0);
    const linked = await estimate('audio/transcribe', { audioUrl });
    expect(linked.body.data).toEqual(uploaded.body.data);
  });
});

it('a picture by URL is estimated like its upload, though its orientation follows its pixels', async () => {
  const turned = await sharp({ create: { width: 90, height: 60, channels: 3, background: '#36c' } })
    .withMetadata({ orientation: 6 })
    .webp()
    .toBuffer();
  const junk = Buffer.alloc(8 + 5 * 1024 * 1024);
  junk.write('JUNK', 'latin1');
  junk.writeUInt32LE(junk.length - 8, 4);
  const exif = turned.lastIndexOf('EXIF');
  const picture = Buffer.concat([turned.subarray(0, exif), junk, turned.subarray(exif)]);
  picture.writeUInt32LE(picture.length - 8, 4);
  const expected = await estimate('image/upscale', {
    imageUrl: (await uploadFile(gateway, picture)).url,
  });
  for (const ranges of [true, false]) {
    const imageUrl = gateway.media.put(`/turned-${ranges}.webp`, picture, { ranges });
    const { status, body } = await estimate('image/upscale', { imageUrl });
    expect([status, body.data]).toEqual([200, expected.body.data]);
    const sent = gateway.media.sentBytes(`/turned-${ranges}.webp`);
    if (ranges) expect(sent).toBeLessThan(2 * 1024 * 1024);
  }
});

describe('a download that ends early is refused', () => {
  const cut =
    (headers: Record<string, string | number>) => (response: ServerResponse, bytes: Buffer) => {
      response.writeHead(200, headers);
      response.write(bytes.subarray(0, 70_000), () => response.socket?.end());
    };
  it.each<[string, (response: ServerResponse, bytes: Buffer) => void]>([
    ['than its Content-Length', cut({ 'content-length': 96_000 })],
    [
      'than its Content-Length, on a closed connection',
      cut({ 'content-length': 96_000, connection: 'close' }),
    ],
    ['than its last chunk', cut({ 'transfer-encoding': 'chunked' })],
    [
      'than its last chunk, on a closed connection',
      cut({ 'transfer-encoding': 'chunked', connection: 'close' }),
    ],
  ])('%s', async (name, answer) => {
    const bytes = await makeSpeech(12);
    const path = `/${name.replaceAll(' ', '-')}?signature=x`;
    const audioUrl = gateway.media.serve(path, (response) => answer(response, bytes));
    const { status, body } = await estimate('audio/transcribe', { audioUrl });
    expect([status, body.error]).toEqual([400, 'INVALID_INPUT_URL']);
    expect(body.message).toBe('audioUrl: the response ended early');
  });
});
