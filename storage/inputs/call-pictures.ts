/**
 * Prepares the pictures of a provider call: a provider may ignore the EXIF tag `Orientation`, and
 * expects a mask in one form. A picture that is stored turned is replaced by an upright copy, and a
 * mask by one of the size of the first picture, white where the picture is edited. The copies are
 * removed when the job is settled.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import sharp, { type Sharp } from 'sharp';
import type { Json, JsonObject } from '../../domain/json.ts';
import type { MaskArea } from '../../domain/job-plan.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { createObjectSource } from '../byte-source.ts';
import { readMedia } from '../media-reader.ts';
import { pixelsMax } from '../media-types.ts';
import { withSpoolFile } from '../spool.ts';
import type { Storage } from '../storage.ts';
import { recordCopy } from './input-copies.ts';
import { parseStorageReference, toStorageReference } from './inputs.ts';

/** Provider call whose pictures are prepared. */
interface PictureCall {
  jobId: string;
  organizationId: string;
  maskArea?: MaskArea;
}

interface Size {
  width: number;
  height: number;
}

/** Fields of providers' inputs that contain a mask. */
const maskFields = ['mask_url', 'mask_image_url'];
/** Maximum relative difference between the aspect ratios of a mask and its picture. */
const ratioDifferenceMax = 0.02;

/** Creates the function that prepares the pictures in the input of a call. */
export function createCallPictures({ pool, storage }: { pool: DatabasePool; storage: Storage }) {
  /** Stores a copy under a key that follows from its name, so that a repeated attempt finds it. */
  async function storeCopy(
    { jobId, organizationId }: PictureCall,
    { name, extension }: { name: string; extension: string },
    make: () => Promise<Buffer>,
  ): Promise<string> {
    const id = createHash('sha256').update(`${jobId} ${name}`).digest('hex').slice(0, 32);
    const storageKey = `${organizationId}/file_${id}.${extension}`;
    if ((await storage.size(storageKey)) === null) {
      const bytes = await make();
      await withSpoolFile(storage, async (path) => {
        await writeFile(path, bytes, { flag: 'wx' });
        await recordCopy(pool, { storageKey, organizationId, jobId, sizeBytes: bytes.length });
        await storage.put(storageKey, path);
      });
    }
    return toStorageReference(storageKey);
  }

  /** Replaces a picture that is stored turned. */
  async function turn(value: Json, call: PictureCall): Promise<Json> {
    const picture = await readHeader(storage, value, call);
    if (!picture?.isTurned) return value;
    const { storageKey, type } = picture;
    const isJpeg = type.extension === 'jpg';
    const upright = { name: `upright ${storageKey}`, extension: isJpeg ? 'jpg' : 'png' };
    return storeCopy(call, upright, async () =>
      encodeUpright(await readPixels(storage, storageKey), isJpeg),
    );
  }

  /** Replaces a mask by one of the size of the picture. */
  async function fitMask(value: Json, first: Json | undefined, call: PictureCall): Promise<Json> {
    const mask = await readHeader(storage, value, call);
    const picture = await readHeader(storage, first, call);
    if (!mask || !picture) return value;
    throwIfDifferent(mask, picture);
    const { width, height } = picture;
    const name = `mask ${mask.storageKey} ${width} ${height} ${call.maskArea ?? 'any'}`;
    return storeCopy(call, { name, extension: 'png' }, async () => {
      const pixels = await readPixels(storage, mask.storageKey);
      return decode(() => drawMask(pixels, { width, height }, call.maskArea));
    });
  }

  return {
    /**
     * Returns the input with its pictures and mask prepared. Texts that are no references to stored
     * files of the organization stay.
     * @throws ProviderFailure `rejected` if a picture or mask cannot be used
     */
    async prepare(input: JsonObject, call: PictureCall): Promise<JsonObject> {
      const prepared: JsonObject = { ...input };
      for (const [field, value] of Object.entries(input)) {
        if (!/image_urls?$/.test(field) || maskFields.includes(field)) continue;
        prepared[field] = Array.isArray(value)
          ? await Promise.all(value.map((item) => turn(item, call)))
          : await turn(value, call);
      }
      const [first] = [prepared['image_urls']].flat();
      for (const field of maskFields) {
        const mask = input[field];
        if (mask !== undefined) prepared[field] = await fitMask(mask, first, call);
      }
      return prepared;
    },
  };
}
export type CallPictures = ReturnType<typeof createCallPictures>;

/** Opens the pixels of a stored picture. @throws ProviderFailure `rejected` if it was deleted */
async function readPixels(storage: Storage, storageKey: string): Promise<Sharp> {
  const object = await storage.open(storageKey);
  if (!object) throw new ProviderFailure('rejected', 'an input picture was deleted');
  return sharp(await buffer(object.stream), { limitInputPixels: pixelsMax });
}

/** Returns the header of a stored picture of the organization; null for other texts and files. */
async function readHeader(
  storage: Storage,
  value: Json | undefined,
  { organizationId }: PictureCall,
) {
  const storageKey = typeof value === 'string' ? parseStorageReference(value) : null;
  if (!storageKey?.startsWith(`${organizationId}/`)) return null;
  const facts = await readMedia(createObjectSource(storage, storageKey));
  return facts.kind === 'picture' ? { storageKey, ...facts } : null;
}

/** Throws unless a mask has the aspect ratio of its picture. @throws ProviderFailure `rejected` */
function throwIfDifferent(mask: Size, picture: Size): void {
  const ratio = (mask.width * picture.height) / (mask.height * picture.width);
  if (Math.abs(ratio - 1) <= ratioDifferenceMax) return;
  const describe = ({ width, height }: Size): string => `${width}×${height}`;
  const sizes = `the mask has ${describe(mask)} pixels, the picture ${describe(picture)}`;
  throw new ProviderFailure(
    'rejected',
    `the mask must have the aspect ratio of the first picture, seen upright: ${sizes}`,
  );
}

/** Runs a conversion. @throws ProviderFailure `rejected` if the picture cannot be decoded */
async function decode(convert: () => Promise<Buffer>): Promise<Buffer> {
  try {
    return await convert();
  } catch (cause) {
    if (cause instanceof ProviderFailure) throw cause;
    throw new ProviderFailure('rejected', 'an input picture cannot be decoded', { cause });
  }
}

/** Turns a picture upright, with its color profile. @throws ProviderFailure `rejected` */
function encodeUpright(picture: Sharp, isJpeg: boolean): Promise<Buffer> {
  const upright = picture.autoOrient().keepIccProfile();
  const jpegOptions = { quality: 95, chromaSubsampling: '4:4:4' } as const;
  return decode(() => (isJpeg ? upright.jpeg(jpegOptions) : upright.png()).toBuffer());
}

/** Draws a mask, white where the picture is edited, as PNG with one channel of 8 bits. */
async function drawMask(pixels: Sharp, size: Size, area: MaskArea | undefined): Promise<Buffer> {
  const { isOpaque } = await pixels.clone().stats();
  if (area === 'transparent' && isOpaque) {
    throw new ProviderFailure(
      'rejected',
      'the mask has no transparent pixel, so nothing is edited',
    );
  }
  const resized = pixels
    .autoOrient()
    .resize(size.width, size.height, { fit: 'fill' })
    .toColourspace('srgb');
  const drawn =
    area === 'transparent' || (area === undefined && !isOpaque)
      ? resized.ensureAlpha().extractChannel('alpha').negate()
      : resized.flatten({ background: '#000' }).greyscale();
  const { data, info } = await drawn.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  return sharp(data, { raw: { width, height, channels } })
    .extractChannel(0)
    .toColourspace('b-w')
    .png()
    .toBuffer();
}
