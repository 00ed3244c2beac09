/** The vendor’s own client works with the sandbox, and the sandbox’s media are real. */
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { readSound } from '../../../dev/sandbox/media/probe.ts';
import { catchFailure } from '../../harness/failures.ts';
import { makeFilm } from '../../harness/media.ts';
import { useSandbox } from '../../harness/sandbox.ts';
import {
  loadElevenLabs,
  type ElevenLabsClient,
  type ElevenLabsPackage,
} from '../vendors/elevenlabs.ts';

const aria = '9BWtsMINqrJLrRacOk9x';
const george = 'JBFqnCBsd6RMkjVDRZzb';
/** One MPEG-1 frame at 44.1 kHz: how near a duration can come. */
const frameSeconds = 1152 / 44_100;

const sandbox = useSandbox();
let vendor: ElevenLabsPackage;
let client: ElevenLabsClient;

beforeAll(async () => {
  // The client logs what it parses.
  vi.spyOn(console, 'log').mockReturnValue();
  vendor = await loadElevenLabs();
  client = clientWith(sandbox.elevenlabsKey);
}, 900_000);

function clientWith(key: string): ElevenLabsClient {
  const baseUrl = `${sandbox.url}/elevenlabs`;
  return new vendor.ElevenLabsClient({ apiKey: key, baseUrl, maxRetries: 0 });
}

async function readBytes(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  return Buffer.from(await new Response(stream).arrayBuffer());
}

/** Walks every frame: the MP3 must be nothing but whole frames of one format. */
async function walk(bytes: Buffer) {
  const { packets, decoderConfig } = await readSound(bytes);
  expect(packets.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBe(bytes.length);
  const durationSeconds = packets.reduce((sum, { duration }) => sum + duration, 0);
  return { sampleRate: decoderConfig.sampleRate, durationSeconds };
}

/** Checks the duration of a sound, to a frame. */
async function expectDuration(bytes: Buffer, seconds: number): Promise<void> {
  const { durationSeconds } = await walk(bytes);
  expect(Math.abs(durationSeconds - seconds)).toBeLessThanOrEqual(frameSeconds);
}

const catchVendorError = (promise: PromiseLike<unknown>) =>
  catchFailure(promise, vendor.ElevenLabsError);

/** Two seconds of silence as WAV, 16-bit mono at 8 kHz. */
const wav = Buffer.concat([
  Buffer.from('RIFF\x24\x7d\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0', 'latin1'),
  Buffer.from('\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\x7d\0\0', 'latin1'),
  Buffer.alloc(32_000),
]);

function transcribe(bytes: Buffer, name: string) {
  const file = { data: bytes, filename: name };
  return client.speechToText.convert({ file, modelId: 'scribe_v2' });
}

describe('the speech API', () => {
  it('returns an MP3 as long as the spoken text', async () => {
    const text = 'The first move is what sets everything in motion.';
    const { data, rawResponse } = await client.textToSpeech
      .convert(aria, { text, modelId: 'eleven_multilingual_v2', outputFormat: 'mp3_44100_128' })
      .withRawResponse();
    const bytes = await readBytes(data);
    const { sampleRate, durationSeconds } = await walk(bytes);
    expect(sampleRate).toBe(44_100);
    expect(durationSeconds).toBeCloseTo(text.length / 14, 1);
    // 128 kbit/s constant.
    expect(bytes.length / durationSeconds).toBeCloseTo(16_000, -2);
    expect(rawResponse.headers.get('request-id')).toMatch(/^[0-9a-f]{32}$/);
    expect(rawResponse.headers.get('character-cost')).toBe(String(text.length));
    expect(rawResponse.headers.get('content-type')).toBe('audio/mpeg');
  });

  it('joins the voices of a dialogue', async () => {
    const inputs = [
      { text: 'Knock knock', voiceId: aria },
      { text: 'Who is there at this hour?', voiceId: george },
    ];
    const audio = await client.textToDialogue.convert({
      inputs,
      modelId: 'eleven_v3',
      settings: { stability: 0.5, similarity: 0.5 },
    });
    const characters = inputs.reduce((sum, { text }) => sum + text.length, 0);
    expect((await walk(await readBytes(audio))).durationSeconds).toBeCloseTo(characters / 14, 1);
  });
});

describe('the music and sound API', () => {
  it('plans a song of exactly the requested length, and plays the plan', async () => {
    const plan = await client.music.compositionPlan.create({
      prompt: 'upbeat synth pop, summer drive',
      musicLengthMs: 47_000,
      modelId: 'music_v1',
    });
    const sum = plan.sections.reduce((total, { durationMs }) => total + durationMs, 0);
    expect(sum).toBe(47_000);
    expect(plan.positiveGlobalStyles).toContain('upbeat synth pop');
    const audio = await client.music.compose({ compositionPlan: plan, modelId: 'music_v1' });
    await expectDuration(await readBytes(audio), 47);
  });

  it.each([3000, 30_000, 600_000])('composes exactly %i ms', async (musicLengthMs) => {
    const audio = await client.music.compose({ prompt: 'calm piano', musicLengthMs });
    await expectDuration(await readBytes(audio), musicLengthMs / 1000);
  });

  it('returns details and audio in one multipart response', async () => {
    const { json, audio, filename } = await client.music.composeDetailed({
      prompt: 'epic orchestral trailer',
      musicLengthMs: 12_000,
    });
    expect(json.songMetadata).toMatchObject({ title: 'Epic orchestral trailer' });
    expect(json.compositionPlan.sections.length).toBeGreaterThan(0);
    expect(filename).toMatch(/\.mp3$/);
    await expectDuration(audio, 12);
  });

  it('returns sounds of the requested length, otherwise as long as the prompt suggests', async () => {
    const text = 'a heavy door slams';
    const sound = await client.textToSoundEffects.convert({ text, durationSeconds: 2.5 });
    await expectDuration(await readBytes(sound), 2.5);
    const open = async () => readBytes(await client.textToSoundEffects.convert({ text }));
    const [first, second] = await Promise.all([open(), open()]);
    expect(first.equals(second)).toBe(true);
    const { durationSeconds } = await walk(first);
    expect(durationSeconds).toBeGreaterThan(0.9);
    expect(durationSeconds).toBeLessThan(6.1);
  });
});

describe('the transcription API', () => {
  it('spreads the words over the duration of an MP3, the same for the same audio', async () => {
    const audio = await client.textToSpeech.convert(aria, { text: 'x'.repeat(140) });
    const bytes = await readBytes(audio);
    const { durationSeconds } = await walk(bytes);
    const first = await transcribe(bytes, 'speech.mp3');
    const second = await transcribe(bytes, 'again.mp3');
    expect(second.text).toBe(first.text);
    expect(first.audioDurationSecs).toBeCloseTo(durationSeconds, 3);
    expect(first.text).toBe(first.words.map(({ text }) => text).join(''));
    const words = first.words.filter(({ type }) => type === 'word');
    expect(words.length).toBe(25);
    let last = 0;
    for (const { start = -1, end = -1 } of first.words) {
      expect(start).toBeGreaterThanOrEqual(last);
      expect(end).toBeGreaterThanOrEqual(start);
      last = end;
    }
    expect(last).toBeLessThanOrEqual(durationSeconds);
    expect(last).toBeGreaterThan(durationSeconds * 0.9);
  });

  it('measures WAV and MP4', async () => {
    const [fromWav, fromFilm] = await Promise.all([
      transcribe(wav, 'speech.wav'),
      transcribe(await makeFilm({ durationSeconds: 7.5, hasAudio: true }), 'speech.mp4'),
    ]);
    expect(fromWav.audioDurationSecs).toBe(2);
    expect(fromFilm.audioDurationSecs).toBe(7.5);
  });

  it('rejects files that are not audio', async () => {
    const error = await catchVendorError(transcribe(Buffer.from('<html>no</html>'), 'page.mp3'));
    const body = { detail: { status: 'invalid_content' } };
    expect(error).toMatchObject({ statusCode: 400, body });
  });
});

describe('the sandbox', () => {
  it('rejects a missing key', async () => {
    const error = await catchVendorError(
      clientWith('wrong').textToSpeech.convert(aria, { text: 'Hi' }),
    );
    const body = { detail: { status: 'invalid_api_key' } };
    expect(error).toMatchObject({ statusCode: 401, body });
  });

  it('requires either a prompt or a plan, each with its own options', async () => {
    const neither = await catchVendorError(client.music.compose({}));
    expect(neither.statusCode).toBe(422);
    const seeded = await catchVendorError(client.music.compose({ prompt: 'jazz', seed: 1 }));
    expect(seeded.body).toMatchObject({ detail: [{ loc: ['body', 'seed'] }] });
  });
});
