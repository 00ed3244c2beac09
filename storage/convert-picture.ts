/**
 * Program that picture-conversion.ts runs: `convert-picture.ts FROM TO FORMAT` decodes a HEIC or AVIF
 * file and writes JPEG, or PNG if it is transparent: upright, with its color profile and without
 * other metadata. Gain maps, depth maps and films in the file are dropped.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { crc32, deflateSync } from 'node:zlib';
import libheif, { type HeifPixels } from 'libheif-js/wasm-bundle.js';
import sharp, { type Sharp } from 'sharp';
import { assert } from '../domain/errors.ts';

/** Maximum number of pixels, as in media-types.ts: a header may state fewer than the file has. */
const pixelsMax = 64_000_000;
/** Optimized tables would need all coefficients in memory: 300 MB of a picture of 48 megapixels. */
const jpegOptions = { quality: 92, chromaSubsampling: '4:4:4', optimiseCoding: false } as const;
/** Maximum size of a profile in one segment of JPEG, in bytes. */
const profileBytesMax = 65_519;

const [from = '', to = '', format = ''] = process.argv.slice(2);
sharp.concurrency(1);

/** Decoded picture, with its alpha channel and whether its profile stays when it is encoded. */
interface Decoded {
  picture: Sharp;
  hasAlpha: boolean;
  keepsProfile: boolean;
}

async function decodeAvif(bytes: Buffer): Promise<Decoded> {
  const picture = sharp(bytes, { limitInputPixels: pixelsMax, failOn: 'error' });
  const { hasAlpha, icc } = await picture.metadata();
  return {
    picture: picture.autoOrient().keepIccProfile(),
    hasAlpha,
    keepsProfile: icc !== undefined,
  };
}

async function decodeHeic(bytes: Buffer): Promise<Decoded> {
  const images = new libheif.HeifDecoder().decode(bytes);
  const image = images.find((candidate) => candidate.is_primary()) ?? images[0];
  assert(image, 'the file has no picture');
  assert(image.get_width() * image.get_height() <= pixelsMax, 'the picture is too large');
  const hasAlpha = image.has_alpha_channel();
  const { heif_colorspace: spaces, heif_chroma: layouts } = libheif;
  const layout = hasAlpha
    ? layouts.heif_chroma_interleaved_RGBA
    : layouts.heif_chroma_interleaved_RGB;
  // The decoder turns the picture by the properties of the format; its EXIF tag does not count.
  const decoded = await libheif.heif_js_decode_image2(
    image.handle,
    spaces.heif_colorspace_RGB,
    layout,
  );
  const [pixels] = decoded.channels ?? [];
  assert(pixels, 'the picture cannot be decoded');
  const { width, height } = pixels;
  const channels = hasAlpha ? 4 : 3;
  const picture = sharp(joinRows(pixels, width * channels), { raw: { width, height, channels } });
  return { picture, hasAlpha, keepsProfile: false };
}

/** Returns the pixels without the bytes after each row. */
function joinRows({ data, height, stride }: HeifPixels, rowBytes: number): Uint8Array {
  if (stride === rowBytes) return data;
  const joined = new Uint8Array(height * rowBytes);
  for (let row = 0; row < height; row += 1) {
    joined.set(data.subarray(row * stride, row * stride + rowBytes), row * rowBytes);
  }
  return joined;
}

/** Number of Display P3 and DCI-P3 in the box `colr` (ITU-T H.273, color primaries). */
const p3Primaries = [11, 12];

/**
 * Returns the ICC profile of a HEIC or AVIF file; that of Display P3 if the file only names these
 * primaries; null for other files. A gain map has a profile of gray.
 */
async function findProfile(bytes: Buffer): Promise<Buffer | null> {
  for (let at = bytes.indexOf('colrprof'); at >= 4; at = bytes.indexOf('colrprof', at + 1)) {
    const profile = bytes.subarray(at + 8, at - 4 + bytes.readUInt32BE(at - 4));
    const [space, signature] = [16, 36].map((start) =>
      profile.toString('latin1', start, start + 4),
    );
    if (space === 'RGB ' && signature === 'acsp') return profile;
  }
  const at = bytes.indexOf('colrnclx');
  if (at < 0 || !p3Primaries.includes(bytes.readUInt16BE(at + 8))) return null;
  const pixel = sharp({ create: { width: 1, height: 1, channels: 3, background: '#fff' } });
  const { icc } = await sharp(await pixel.withIccProfile('p3').png().toBuffer()).metadata();
  return icc ?? null;
}

/** Adds an ICC profile to a JPEG, as the segment APP2. */
function addToJpeg(jpeg: Buffer, profile: Buffer): Buffer {
  if (profile.length > profileBytesMax) return jpeg;
  const head = Buffer.from('\xff\xe2\0\0ICC_PROFILE\0\x01\x01', 'latin1');
  head.writeUInt16BE(head.length - 2 + profile.length, 2);
  return Buffer.concat([jpeg.subarray(0, 2), head, profile, jpeg.subarray(2)]);
}

/** Adds an ICC profile to a PNG, as the chunk `iCCP` after the header. */
function addToPng(png: Buffer, profile: Buffer): Buffer {
  const headerBytes = 33;
  const content = Buffer.concat([Buffer.from('iCCPicc\0\0', 'latin1'), deflateSync(profile)]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length - 4);
  checksum.writeUInt32BE(crc32(content));
  const [header, rest] = [png.subarray(0, headerBytes), png.subarray(headerBytes)];
  return Buffer.concat([header, length, content, checksum, rest]);
}

const bytes = await readFile(from);
const decode = format === 'heic' ? decodeHeic : decodeAvif;
const { picture, hasAlpha, keepsProfile } = await decode(bytes);
const encoded = await (hasAlpha ? picture.png() : picture.jpeg(jpegOptions)).toBuffer();
const profile = keepsProfile ? null : await findProfile(bytes);
const addProfile = hasAlpha ? addToPng : addToJpeg;
await writeFile(to, profile ? addProfile(encoded, profile) : encoded);
