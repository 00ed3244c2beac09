/**
 * Makes MP3s of any duration: a short loop is synthesized and encoded once, and its frames are
 * repeated.
 */
import { createMp3Encoder } from 'wasm-media-encoders';
import { seedOf, type MediaSize } from './media.ts';
import { readSound } from './probe.ts';

/** An MP3 encoding of constant bit rate. */
export interface Mp3Format {
  sampleRate: 22_050 | 24_000 | 44_100 | 48_000;
  bitrateKbps: 32 | 48 | 64 | 96 | 128 | 192 | 320;
}

/** Kind of sound. */
type Timbre = 'speech' | 'music' | 'effect';

/** Tone to make. */
interface Tone {
  timbre: Timbre;
  /** Name of the tone: a voice, or a prompt. Different names sound different. */
  name: string;
  durationSeconds: number;
  format: Mp3Format;
}

const loopSeconds = 2;
/**
 * Number of cached loops: encoding a loop costs up to 30 ms of CPU (measured), a loop has at most
 * 80 kB.
 */
const loopsMax = 128;
/** Quarter tones from A2 over three octaves, which distinguish names. */
const pitches = 72;

type Sample = (seconds: number, baseHz: number) => number;

const turn = 2 * Math.PI;
/** Major chord, up and down: one note per half second of the loop. */
const arpeggio = [1, 5 / 4, 3 / 2, 5 / 4];

const samples: Record<Timbre, Sample> = {
  // Syllables: four swells per second over a tone with overtones.
  speech: (seconds, hz) => {
    const swell = 0.5 - 0.5 * Math.cos(turn * 4 * seconds);
    const phase = turn * hz * seconds;
    return 0.35 * swell * (Math.sin(phase) + 0.4 * Math.sin(2 * phase) + 0.2 * Math.sin(3 * phase));
  },
  music: (seconds, hz) => {
    const note = hz * (arpeggio[Math.floor(seconds * 2) % arpeggio.length] ?? 1);
    const decay = Math.exp(-3 * (seconds % 0.5));
    return (
      0.3 * decay * Math.sin(turn * note * seconds) + 0.15 * Math.sin(turn * hz * seconds * 0.5)
    );
  },
  // Rising sweep, repeated every half second.
  effect: (seconds, hz) => {
    const within = seconds % 0.5;
    return 0.4 * Math.exp(-5 * within) * Math.sin(turn * hz * (1 + 2 * within) * within);
  },
};

/** Encoded frames that are repeated. */
interface Loop {
  frames: Uint8Array[];
  frameSeconds: number;
}

type Encoder = Awaited<ReturnType<typeof createMp3Encoder>>;

async function encodeLoop(
  encoder: Encoder,
  { timbre, format }: Tone,
  pitch: number,
): Promise<Loop> {
  const { sampleRate, bitrateKbps } = format;
  const baseHz = 110 * 2 ** (pitch / 24);
  const sampleAt = samples[timbre];
  const pcm = Float32Array.from({ length: loopSeconds * sampleRate }, (_, index) =>
    sampleAt(index / sampleRate, baseHz),
  );
  const channels = timbre === 'music' ? 2 : 1;
  encoder.configure({ sampleRate, channels, bitrate: bitrateKbps });
  const body = Buffer.from(encoder.encode(channels === 2 ? [pcm, pcm] : [pcm]));
  const { packets } = await readSound(Buffer.concat([body, encoder.finalize()]));
  return { frames: packets.map(({ data }) => data), frameSeconds: packets[0].duration };
}

/** Makes tones; the tiny kind returns the same tone for every name. */
export function createTones(size: MediaSize) {
  const loops = new Map<string, Loop>();
  let encoder: Promise<Encoder> | undefined;

  const loopOf = async (tone: Tone): Promise<Loop> => {
    const pitch = size.tiny ? 0 : seedOf(tone.name) % pitches;
    const key = [tone.timbre, pitch, tone.format.sampleRate, tone.format.bitrateKbps].join('/');
    const ready = await (encoder ??= createMp3Encoder());
    const loop = loops.get(key) ?? (await encodeLoop(ready, tone, pitch));
    loops.delete(key);
    loops.set(key, loop);
    const oldest = loops.keys().next().value;
    if (loops.size > loopsMax && oldest !== undefined) loops.delete(oldest);
    return loop;
  };

  return {
    /** Returns an MP3 of this tone, rounded to a frame, at least one frame long. */
    make: async (tone: Tone): Promise<Buffer> => {
      const { frames, frameSeconds } = await loopOf(tone);
      const length = Math.max(1, Math.round(tone.durationSeconds / frameSeconds));
      const all = Array.from({ length }, (_, index) => frames[index % frames.length] ?? frames[0]);
      return Buffer.concat(all.filter((frame) => frame !== undefined));
    },
  };
}

/** Maker of tones. */
export type Tones = ReturnType<typeof createTones>;
