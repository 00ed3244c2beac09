/**
 * Where a provider paints: a photo with a marker and a mask with a hole at its place are prepared for
 * a call, in each orientation, form of the mask and provider, and measured as the provider gets them.
 */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { writeFile } from 'node:fs/promises';
import sharp, { type Sharp } from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { MaskArea } from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createOutbound } from '../../platform/outbound.ts';
import openai from '../../providers/openai/index.ts';
import { createCallPictures, type CallPictures } from '../../storage/inputs/call-pictures.ts';
import { parseStorageReference, toStorageReference } from '../../storage/inputs/inputs.ts';
import type { Storage } from '../../storage/storage.ts';
import { during } from '../harness/during.ts';
import { openTestDisk } from '../harness/folders.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { useLedger, type Holder } from '../ledger/use-ledger.ts';

/** Size of the photo as it is seen, and place of the marker in it. */
const [width, height] = [96, 128];
const place = { left: 16, top: 20, right: 48, bottom: 60 };
type Place = typeof place;

const ledgers = useLedger();
let storage: Storage;
let pictures: CallPictures;
let holder: Holder;
beforeAll(async () => {
  holder = await ledgers.newHolder();
  storage = await openTestDisk();
  const logger = createLogger('test', 'silent');
  const pool = await openDatabase({ url: ledgers.database.url, poolMax: 2, logger });
  pictures = createCallPictures({ pool, storage });
  return () => pool.end();
});

/** Returns an image of one color with another color at the place; the colors are RGBA. */
function draw(ground: number[], marker: number[], at: Place = place): Sharp {
  const pixels = Buffer.alloc(width * height * 4);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const isMarker = x >= at.left && x < at.right && y >= at.top && y < at.bottom;
      pixels.set(isMarker ? marker : ground, (y * width + x) * 4);
    }
  }
  return sharp(pixels, { raw: { width, height, channels: 4 } });
}

/** Stores the pixels of an upright image as a camera in this orientation does. */
async function turn(upright: Sharp, orientation: number): Promise<Sharp> {
  const apply = async (image: Sharp, change: (image: Sharp) => Sharp): Promise<Sharp> =>
    sharp(await change(image).png().toBuffer());
  const turned = [0, 0, 0, 180, 0, 90, 270, 90, 90][orientation] ?? 0;
  const rotated = await apply(upright, (image) => image.rotate(turned));
  if (orientation === 2 || orientation === 5) return apply(rotated, (image) => image.flop());
  if (orientation === 4 || orientation === 7) return apply(rotated, (image) => image.flip());
  return rotated;
}

const red = [220, 20, 20, 255];
const gray = [120, 120, 120, 255];
const white = [255, 255, 255, 255];
const black = [0, 0, 0, 255];
const hole = [255, 255, 255, 0];

/** Masks whose hole is at the place. */
const masks: [string, () => Promise<Buffer> | Buffer, MaskArea | undefined][] = [
  ['white on black', () => draw(black, white).removeAlpha().png().toBuffer(), undefined],
  ['white on black with opaque alpha', () => draw(black, white).png().toBuffer(), undefined],
  [
    'white on black in 16 bits',
    () => draw(black, white).removeAlpha().toColourspace('grey16').png().toBuffer(),
    undefined,
  ],
  [
    'white on black with a palette',
    () => draw(black, white).removeAlpha().png({ palette: true, colours: 2 }).toBuffer(),
    undefined,
  ],
  ['white on black as JPEG', () => draw(black, white).removeAlpha().jpeg().toBuffer(), undefined],
  [
    'white on black of half the size',
    async () =>
      sharp(await draw(black, white).png().toBuffer())
        .resize(48, 64)
        .png()
        .toBuffer(),
    undefined,
  ],
  ['white on transparent, named', () => draw(hole, white).png().toBuffer(), 'white'],
  ['hole in a photo', () => draw(gray, hole).png().toBuffer(), undefined],
  ['hole in white', () => draw(white, hole).png().toBuffer(), 'transparent'],
  ['black hole in white', () => draw(white, [0, 0, 0, 0]).png().toBuffer(), 'transparent'],
  ['hole in black', () => draw(black, hole).png().toBuffer(), 'transparent'],
  [
    'hole in 16 bits',
    () => draw(gray, hole).toColourspace('rgb16').png().toBuffer(),
    'transparent',
  ],
  ['hole in a palette', () => draw(gray, hole).png({ palette: true }).toBuffer(), 'transparent'],
  [
    'hole in gray with alpha',
    () => draw(gray, hole).toColourspace('b-w').png().toBuffer(),
    'transparent',
  ],
  ['hole in WebP', () => draw(gray, hole).webp({ lossless: true }).toBuffer(), 'transparent'],
  ['hole in a GIF', () => draw(gray, hole).gif().toBuffer(), 'transparent'],
  [
    'hole in a turned mask',
    async () => (await turn(draw(gray, hole), 6)).withMetadata({ orientation: 6 }).png().toBuffer(),
    'transparent',
  ],
];

async function store(bytes: Buffer, extension: string): Promise<string> {
  const storageKey = `${holder.organizationId}/${newId('upload')}.${extension}`;
  const path = await storage.spoolPath();
  await writeFile(path, bytes);
  await storage.put(storageKey, path);
  return toStorageReference(storageKey);
}

async function load(reference: unknown): Promise<Buffer> {
  const object = await storage.open(parseStorageReference(String(reference)) ?? '');
  if (!object) throw new Error('the object is missing');
  return buffer(object.stream);
}

/** Returns the place of the pixels that fulfil a condition, as the stored pixels have it. */
async function find(bytes: Buffer, isMarker: (rgba: number[]) => boolean) {
  const image = sharp(bytes).toColourspace('srgb').ensureAlpha().raw({ depth: 'uchar' });
  const { data, info } = await image.toBuffer({ resolveWithObject: true });
  const found = { left: info.width, top: info.height, right: 0, bottom: 0 };
  for (let y = 0; y < info.height; y += 1) {
    for (let x = 0; x < info.width; x += 1) {
      const at = (y * info.width + x) * 4;
      if (!isMarker([...data.subarray(at, at + 4)])) continue;
      found.left = Math.min(found.left, x);
      found.top = Math.min(found.top, y);
      found.right = Math.max(found.right, x + 1);
      found.bottom = Math.max(found.bottom, y + 1);
    }
  }
  return { size: [info.width, info.height], ...found };
}

/** Expects a place within two pixels, which scaling and JPEG blur. */
function expectPlace({ size, ...found }: Awaited<ReturnType<typeof find>>): void {
  expect(size).toEqual([width, height]);
  for (const [side, position] of Object.entries(found)) {
    expect(Math.abs(position - place[side as keyof Place]), side).toBeLessThanOrEqual(2);
  }
}

const received: FormData[] = [];
const server = during(() =>
  startHttpServer((request, response) => {
    const type = request.headers['content-type'] ?? '';
    void buffer(request)
      .then((body) => new Response(body, { headers: { 'content-type': type } }).formData())
      .then((form) => received.push(form))
      .finally(() => response.writeHead(400).end('{}'));
  }),
);

/** Sends an edit by the adapter of OpenAI, and returns the picture and the mask of its form. */
async function sendToOpenai(input: Record<string, unknown>): Promise<[Buffer, Buffer]> {
  const variables = { OPENAI_IMAGES_API_KEY: 'a-secret', OPENAI_IMAGES_BASE_URL: server.url };
  const provider = openai.create({ PROVIDER_VARIABLES: variables } as unknown as Config, {
    outbound: {
      ...createOutbound({ admittedOrigins: [] }),
      fetch: async (url) => Readable.from([await load(url)]),
    },
    storage,
  });
  const signal = AbortSignal.timeout(30_000);
  const submission = {
    providerEndpoint: 'images/edits',
    notificationUrl: '',
    idempotencyKey: 'k',
    signal,
  };
  await provider.submit({ ...submission, input: input as never }).catch(() => {});
  const form = received.pop();
  if (!form) throw new Error('the provider received no form');
  const read = async (name: string) => Buffer.from(await (form.get(name) as File).arrayBuffer());
  return [await read('image[]'), await read('mask')];
}

describe.each([1, 2, 3, 4, 5, 6, 7, 8])('a photo in orientation %d', (orientation) => {
  it.each(masks)('is painted where its mask has %s', async (_name, makeMask, maskArea) => {
    const photo = await (
      await turn(draw(gray, red), orientation)
    )
      .removeAlpha()
      .withMetadata({ orientation })
      .jpeg({ quality: 95 })
      .toBuffer();
    const input = {
      prompt: 'x',
      image_urls: [await store(photo, 'jpg')],
      mask_url: await store(await makeMask(), 'png'),
    };
    const call = {
      jobId: newId('job'),
      organizationId: holder.organizationId,
      ...(maskArea && { maskArea }),
    };
    const prepared = await pictures.prepare(input, call);
    expect(await pictures.prepare(input, call), 'a repeated attempt').toEqual(prepared);
    const isRed = ([r = 0, g = 0]: number[]): boolean => r > 180 && g < 90;
    const [image] = prepared['image_urls'] as string[];
    expectPlace(await find(await load(image), isRed));
    expectPlace(await find(await load(prepared['mask_url']), ([r = 0]) => r > 128));
    const [sentImage, sentMask] = await sendToOpenai(prepared);
    expectPlace(await find(sentImage, isRed));
    expectPlace(await find(sentMask, ([, , , alpha = 255]) => alpha < 128));
  });
});

describe('a mask is rejected', () => {
  it.each<[string, Sharp, MaskArea | undefined, RegExp]>([
    ['without a transparent pixel', draw(black, white), 'transparent', /no transparent pixel/],
    [
      'of another shape',
      draw(black, white).resize(100, 40, { fit: 'fill' }),
      undefined,
      /the mask has 100×40 pixels, the picture 96×128/,
    ],
  ])('%s', async (_name, mask, maskArea, message) => {
    const input = {
      image_urls: [await store(await draw(gray, red).png().toBuffer(), 'png')],
      mask_url: await store(await mask.png().toBuffer(), 'png'),
    };
    const call = {
      jobId: newId('job'),
      organizationId: holder.organizationId,
      ...(maskArea && { maskArea }),
    };
    await expect(pictures.prepare(input, call)).rejects.toMatchObject({
      kind: 'rejected',
      message: expect.stringMatching(message),
    });
  });
});
