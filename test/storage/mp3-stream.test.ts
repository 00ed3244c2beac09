import { writeFile } from 'node:fs/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createMp3Encoder } from 'wasm-media-encoders';
import { BufferSource } from 'mediabunny';
import { beforeAll, describe, expect, it } from 'vitest';
import { assemble, framesOf, NotMp3Error } from '../../activities/assemble.ts';
import { newId } from '../../domain/ids.ts';
import type { StoredArtifact } from '../../domain/job-plan.ts';
import { createOutbound } from '../../platform/outbound.ts';
import { createArtifactStore } from '../../storage/artifacts.ts';
import { openTestDisk } from '../harness/folders.ts';
import { readRecording } from '../harness/recordings.ts';

let file: Buffer;
beforeAll(async () => {
  file = await mp3(2);
});

async function mp3(seconds: number, sampleRate: 44_100 | 22_050 = 44_100): Promise<Buffer> {
  const encoder = await createMp3Encoder();
  encoder.configure({ sampleRate, channels: 2, bitrate: 128 });
  const sound = new Float32Array(seconds * sampleRate).map((_, at) => 0.4 * Math.sin(at * 0.06));
  const head = Buffer.from(encoder.encode([sound, sound]));
  return Buffer.concat([head, Buffer.from(encoder.finalize())]);
}

async function stripped(bytes: Buffer): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of framesOf(new BufferSource(bytes), () => {})) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function id3v2(sizeBytes: number): Buffer {
  const tag = Buffer.alloc(10 + sizeBytes, 7);
  tag.write('ID3\x04\0\0', 'latin1');
  tag.set(
    [(sizeBytes >> 21) & 127, (sizeBytes >> 14) & 127, (sizeBytes >> 7) & 127, sizeBytes & 127],
    6,
  );
  return tag;
}

/** A frame of silence that says how many frames follow, as encoders put it first. */
function infoFrame(): Buffer {
  // 128 kbit/s at 44.1 kHz, without padding.
  const frame = Buffer.alloc(417);
  file.copy(frame, 0, 0, 4);
  frame.write('Info', 36, 'latin1');
  frame.writeUInt32BE(1, 40);
  frame.writeUInt32BE(3, 44);
  return frame;
}

describe('the frames of an MP3', () => {
  it('are kept, and the rest of the file is dropped', async () => {
    const tagged = Buffer.concat([
      id3v2(3000),
      infoFrame(),
      file,
      Buffer.from('TAG'.padEnd(128, ' '), 'latin1'),
    ]);
    expect((await stripped(tagged)).equals(file)).toBe(true);
  });

  it('are all kept if there is nothing to drop', async () => {
    expect((await stripped(file)).equals(file)).toBe(true);
  });

  it('from several files form one file of their total duration', async () => {
    const tagged = Buffer.concat([infoFrame(), file]);
    const joined = Buffer.concat([await stripped(tagged), await stripped(tagged)]);
    const one = await readRecording(file);
    const two = await readRecording(joined);
    expect(two.packets).toBe(2 * one.packets);
    expect(two.durationSeconds).toBeCloseTo(2 * one.durationSeconds, 1);
    // Players believe the count of frames that the first file's Info frame tells.
    expect(joined.includes('Info')).toBe(false);
  });

  it.each([
    ['that cannot be read now', () => null, { type: 'STORAGE_ERROR', nonRetryable: false }],
    ['of another format', () => mp3(1, 22_050), { type: 'PROVIDER_ERROR', nonRetryable: true }],
  ])('are not joined to a part %s', async (_what, makePart, failure) => {
    const storage = await openTestDisk();
    const [organizationId, jobId] = [newId('organization'), newId('job')];
    const parts: StoredArtifact[] = [];
    for (const [index, bytes] of [file, await makePart()].entries()) {
      const storageKey = `${organizationId}/${jobId}/${index}-0.mp3`;
      parts.push({ storageKey } as StoredArtifact);
      const path = await storage.spoolPath();
      if (bytes) await writeFile(path, bytes).then(() => storage.put(storageKey, path));
    }
    const artifacts = createArtifactStore({
      storage,
      outbound: createOutbound({ admittedOrigins: [] }),
      marksOutputs: true,
    });
    const task = { jobId, organizationId, kind: 'concat_audio', callIndex: 2, parts } as const;
    const joined = new MockActivityEnvironment().run(assemble, { storage, artifacts }, task);
    await expect(joined).rejects.toMatchObject(failure);
  });

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['a web page', Buffer.from('<!doctype html>'.repeat(20))],
    ['a tag alone', id3v2(50)],
  ])('are not found in %s', async (_name, bytes) => {
    await expect(stripped(bytes)).rejects.toThrow(NotMp3Error);
  });
});
