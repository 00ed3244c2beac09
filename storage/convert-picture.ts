/**
 * Program that picture-conversion.ts runs: `convert-picture.ts FROM TO FORMAT` decodes a HEIC or AVIF
 * file and writes JPEG, or PNG if it is transparent: upright, with its color profile and without
 * other metadata. Gain maps, depth maps and films in the file are dropped.
 */
import { readFile, writeFile } from 'node:fs/promises';
import libheif from 'libheif-js/wasm-bundle.js';
import sharp, { type Sharp } from 'sharp';
import { assert } from '../domain/errors.ts';

/** Maximum number of pixels, as in media-types.ts: a header may state fewer than the file has. */
const pixelsMax = 64_000_000;
const jpegOptions = { quality: 92, chromaSubsampling: '4:4:4' } as const;
/** Maximum size of a profile in one segment of JPEG, in bytes. */
const profileBytesMax = 65_519;

const [from = '', to = '', format = ''] = process.argv.slice(2);
sharp.concurrency(1);

async function convertAvif(): Promise<void> {
  const options = { limitInputPixels: pixelsMax, failOn: 'error' } as const;
  const { hasAlpha } = await sharp(from, options).metadata();
  const upright = sharp(from, options).autoOrient().keepIccProfile();
  await encode(upright, hasAlpha).toFile(to);
}

async function convertHeic(): Promise<void> {
  const bytes = await readFile(from);
  const images = new libheif.HeifDecoder().decode(bytes);
  const image = images.find((candidate) => candidate.is_primary()) ?? images[0];
  assert(image, 'the file has no picture');
  // The decoder turns the picture by the properties of the format; its EXIF tag does not count.
  const [width, height] = [image.get_width(), image.get_height()];
  assert(width > 0 && height > 0 && width * height <= pixelsMax, 'the picture is too large');
  const data = new Uint8ClampedArray(width * height * 4);
  await new Promise<void>((resolve, reject) => {
    image.display({ data, width, height }, (shown) =>
      shown ? resolve() : reject(new Error('the picture cannot be decoded')),
    );
  });
  const hasAlpha = image.has_alpha_channel();
  const picture = sharp(data, { raw: { width, height, channels: 4 } });
  const encoded = await encode(hasAlpha ? picture : picture.removeAlpha(), hasAlpha).toBuffer();
  const profile = hasAlpha ? null : findProfile(bytes);
  await writeFile(to, profile ? addProfile(encoded, profile) : encoded);
}

const encode = (picture: Sharp, hasAlpha: boolean): Sharp =>
  hasAlpha ? picture.png() : picture.jpeg(jpegOptions);

/** Returns the first ICC profile of a HEIC file, which is that of the picture; null if it has none. */
function findProfile(bytes: Buffer): Buffer | null {
  const at = bytes.indexOf('colrprof');
  if (at < 4) return null;
  const profile = bytes.subarray(at + 8, at - 4 + bytes.readUInt32BE(at - 4));
  return profile.toString('latin1', 36, 40) === 'acsp' ? profile : null;
}

/** Adds an ICC profile to a JPEG, as the segment APP2. */
function addProfile(jpeg: Buffer, profile: Buffer): Buffer {
  if (profile.length > profileBytesMax) return jpeg;
  const head = Buffer.from('\xff\xe2\0\0ICC_PROFILE\0\x01\x01', 'latin1');
  head.writeUInt16BE(head.length - 2 + profile.length, 2);
  return Buffer.concat([jpeg.subarray(0, 2), head, profile, jpeg.subarray(2)]);
}

await (format === 'heic' ? convertHeic() : convertAvif());
