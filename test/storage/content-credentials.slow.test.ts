/** Stored files are marked as generated media, and signed files stay as they are. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { OutputSpec } from '../../domain/job-plan.ts';
import { createOutbound } from '../../platform/outbound.ts';
import { createArtifactStore } from '../../storage/artifacts.ts';
import { openC2pa, readExif } from '../harness/c2pa.ts';
import { decode, findFfmpeg } from '../harness/ffmpeg.ts';
import { newFolder, openTestDisk } from '../harness/folders.ts';

const run = promisify(execFile);
const folder = newFolder();
const terms = 'http://cv.iptc.org/newscodes/digitalsourcetype/';

const film = ['-f', 'lavfi', '-i', 'testsrc=d=1:s=128x72:r=10'];
const sound = ['-f', 'lavfi', '-i', 'sine=d=1'];
const frame = [...film, '-frames:v', '1'];
const mp4 = ['-pix_fmt', 'yuv420p', '-c:v', 'mpeg4'];
/** Files by name, with ffmpeg's arguments. */
const files: Record<string, string[]> = {
  'a.png': frame,
  'a.jpg': frame,
  'a.webp': [...frame, '-lossless', '0'],
  'lossless.webp': [...frame, '-lossless', '1', '-pix_fmt', 'bgra'],
  'a.mp4': [...film, ...sound, ...mp4],
  'faststart.mp4': [...film, ...mp4, '-movflags', 'faststart'],
  'fragmented.mp4': [...film, ...mp4, '-movflags', 'frag_keyframe+empty_moov'],
  'a.webm': [...film, '-c:v', 'libvpx'],
  'live.webm': [...film, '-c:v', 'libvpx', '-live', '1'],
  'a.mp3': [...sound, '-metadata', 'title=Ä title'],
  'id3v23.mp3': [...sound, '-metadata', 'title=Ä title', '-id3v2_version', '3'],
  'bare.mp3': [...sound, '-id3v2_version', '0', '-write_xing', '0'],
  'a.wav': sound,
  'rf64.wav': [...sound, '-rf64', 'always'],
};
const media: Record<string, [OutputSpec['medium'], string]> = {
  png: ['image', 'image/png'],
  jpg: ['image', 'image/jpeg'],
  webp: ['image', 'image/webp'],
  mp4: ['video', 'video/mp4'],
  webm: ['video', 'video/webm'],
  mp3: ['audio', 'audio/mpeg'],
  wav: ['audio', 'audio/wav'],
};
const typeOf = (name: string) => media[name.slice(name.lastIndexOf('.') + 1)] ?? ['json', ''];
const at = (name: string) => join(folder, name);

let ffmpeg: string;
let storage: Awaited<ReturnType<typeof openTestDisk>>;
beforeAll(async () => {
  ffmpeg = await findFfmpeg();
  storage = await openTestDisk(join(folder, 'storage'));
  for (const [name, args] of Object.entries(files)) {
    await run(ffmpeg, ['-v', 'error', '-y', ...args, at(name)]);
  }
}, 120_000);

/** Hashes the packets of all tracks, and the pixels of a picture. Metadata does not change them. */
async function hashMedia(path: string): Promise<string> {
  const copies = /\.(png|jpg|webp)$/.test(path) ? [] : ['-c', 'copy'];
  const hash = ['-map', '0', ...copies, '-f', 'streamhash', '-hash', 'md5', '-'];
  return (await run(ffmpeg, ['-v', 'error', '-i', path, ...hash])).stdout;
}

/** Writes XMP properties into a copy of a file, as a provider or a camera does. */
async function addXmp(name: string, copy: string, properties: readonly string[]): Promise<void> {
  const tags = properties.map((property) => `-XMP-${property}`);
  if (!/\.(webp|mp3)$/.test(name)) {
    await run('exiftool', [...tags, '-o', at(copy), at(name)]);
    return;
  }
  const side = at(`${copy}.xmp`);
  await run('exiftool', [...tags, '-o', side]);
  const packet = await readFile(side);
  if (name.endsWith('webp')) {
    await sharp(at(name)).withXmp(packet.toString()).webp({ lossless: true }).toFile(at(copy));
    return;
  }
  const id3 = Buffer.concat([Buffer.from('PRIV'), Buffer.alloc(6), Buffer.from('XMP\0'), packet]);
  id3.writeUInt32BE(packet.length + 4, 4);
  const head = Buffer.from('ID3\x03\0\0\0\0\0\0', 'latin1');
  head.set([id3.length >> 14, (id3.length >> 7) & 127, id3.length & 127], 7);
  await writeFile(at(copy), Buffer.concat([head, id3, await readFile(at(name))]));
}

const jobId = newId('job');
interface Stored {
  format?: OutputSpec['format'];
  marksOutputs?: boolean;
  hasCallerMedia?: boolean;
}

/** Stores bytes as the output of a call; returns the artifact, a file with its bytes, and its job. */
async function store(name: string, options: Stored = {}, bytes?: Buffer) {
  const { format = null, marksOutputs = true, hasCallerMedia = false } = options;
  const outbound = createOutbound({ admittedOrigins: [] });
  const artifacts = createArtifactStore({ storage, outbound, marksOutputs });
  const [medium] = typeOf(name);
  const place = { organizationId: newId('organization'), jobId, callIndex: 0, outputIndex: 0 };
  const storeOnce = async () => {
    const stream = Readable.from([bytes ?? (await readFile(at(name)))]);
    const mark = { model: 'a-<model>', hasCallerMedia };
    const signal = AbortSignal.timeout(30_000);
    return artifacts.store(
      { kind: 'stream', stream },
      { output: { medium, format }, place, mark, signal },
    );
  };
  const artifact = await storeOnce();
  // A second attempt finds the stored object, and describes it alike.
  expect(await storeOnce()).toEqual(artifact);
  const path = join(folder, 'storage', 'objects', artifact.storageKey);
  expect((await readFile(path)).length).toBe(artifact.sizeBytes);
  return { artifact, path };
}

describe('an output without a mark', () => {
  it.each(Object.keys(files))(
    'is marked, and its pixels and sound stay as they are: %s',
    async (name) => {
      const { artifact, path } = await store(name);
      expect(artifact.contentCredentials).toBe('gateway');
      const exif = await readExif(path);
      const values = JSON.stringify(exif);
      expect(values).toContain(`${terms}trainedAlgorithmicMedia`);
      expect(values).toContain('a-<model>');
      expect(values).toContain(jobId);
      expect(exif['ExifTool:Warning'] ?? null).toBeNull();
      expect(await hashMedia(path)).toBe(await hashMedia(at(name)));
      expect((await decode(ffmpeg, path)).complaints).toBe(
        (await decode(ffmpeg, at(name))).complaints,
      );
      const title = name.endsWith('mp3') && name !== 'bare.mp3';
      if (title) expect(values).toContain('Ä title');
    },
  );

  it.each([
    [{ hasCallerMedia: true }, 'compositeWithTrainedAlgorithmicMedia', 'gateway'],
    [{ marksOutputs: false }, null, 'none'],
  ] as const)('with %j is marked as %s', async (options, term, credentials) => {
    const { artifact, path } = await store('a.png', options);
    expect(artifact.contentCredentials).toBe(credentials);
    const exif = await readExif(path);
    expect(exif['XMP-iptcExt:DigitalSourceType'] ?? null).toBe(term && terms + term);
    if (!term) expect(await readFile(path)).toEqual(await readFile(at('a.png')));
  });

  it.each(['a.png', 'a.jpg', 'a.webp', 'a.mp4', 'bare.mp3'])(
    'keeps its other metadata, and loses a wrong source: %s',
    async (name) => {
      const source = `iptcExt:DigitalSourceType=${terms}digitalCapture`;
      await addXmp(name, `edited-${name}`, ['dc:Title=A title', source, 'xmp:CreatorTool=Camera']);
      const { artifact, path } = await store(`edited-${name}`);
      expect(artifact.contentCredentials).toBe('gateway');
      expect(await readExif(path)).toMatchObject({
        'XMP-dc:Title': 'A title',
        'XMP-dc:Identifier': jobId,
        'XMP-iptcExt:DigitalSourceType': `${terms}trainedAlgorithmicMedia`,
        'XMP-xmp:CreatorTool': 'Studio Gateway',
      });
      expect(await hashMedia(path)).toBe(await hashMedia(at(`edited-${name}`)));
    },
  );

  it('is kept as it is if a mark would break it: bytes after the last box', async () => {
    const bytes = Buffer.concat([await readFile(at('a.mp4')), Buffer.from('trailing')]);
    const { artifact, path } = await store('a.mp4', {}, bytes);
    expect(artifact.contentCredentials).toBe('none');
    expect(await readFile(path)).toEqual(bytes);
  });
});

describe('an output that its provider marked', () => {
  it.each(['a.png', 'a.jpg', 'a.webp', 'a.mp4', 'bare.mp3'])(
    'with XMP stays as it is: %s',
    async (name) => {
      const source = `iptcExt:DigitalSourceType=${terms}trainedAlgorithmicMedia`;
      await addXmp(name, `marked-${name}`, [source]);
      const { artifact, path } = await store(`marked-${name}`);
      expect(artifact.contentCredentials).toBe('provider');
      expect(await readFile(path)).toEqual(await readFile(at(`marked-${name}`)));
    },
  );

  it('with C2PA stays as it is and valid; a converted file is marked by the gateway', async () => {
    const c2pa = await openC2pa(folder);
    const signable = ['a.png', 'a.jpg', 'a.webp', 'a.mp4', 'a.mp3', 'a.wav'];
    await c2pa.sign(Object.fromEntries(signable.map((name) => [name, typeOf(name)[1]])));
    for (const name of signable) {
      const { artifact, path } = await store(`signed-${name}`);
      expect(artifact.contentCredentials, name).toBe('provider');
      const bytes = await readFile(path);
      expect(bytes, name).toEqual(await readFile(at(`signed-${name}`)));
      await writeFile(at(`stored-${name}`), bytes);
    }
    const storedFiles = signable.map((name) => [`stored-${name}`, typeOf(name)[1]] as const);
    expect(await c2pa.check(Object.fromEntries(storedFiles))).toEqual(signable.map(() => 'Valid'));

    const { artifact, path } = await store('signed-a.png', { format: 'jpeg' });
    expect(artifact.contentCredentials).toBe('gateway');
    await writeFile(at('converted.jpg'), await readFile(path));
    expect(await c2pa.check({ 'converted.jpg': 'image/jpeg' })).toEqual(['none']);
    const exif = await readExif(path);
    expect(exif['XMP-iptcExt:DigitalSourceType']).toBe(`${terms}trainedAlgorithmicMedia`);
  }, 300_000);
});
