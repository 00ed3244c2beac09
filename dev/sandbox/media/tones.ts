/** Generates MP3s of any duration: synthesizes and encodes a short loop once, and repeats its frames. */
import { createMp3Encoder } from 'wasm-media-encoders';
import { deriveSeed, type MediaSize } from './media.ts';
import { readSound } from './probe.ts';

/** MP3 encoding with a constant bit rate. */
export interface Mp3Format {
  sampleRate: 22_050 | 24_000 | 44_100 | 48_000;
  bitrateKbps: 32 | 48 | 64 | 96 | 128 | 192 | 320;
}

type Timbre = 'speech' | 'music' | 'effect';

/** Properties of the sound to generate. */
interface Tone {
  timbre: Timbre;
  /** Voice or prompt; it determines the pitch. */
  name: string;
  durationSeconds: number;
  format: Mp3Format;
}

const loopSeconds = 2;
/** Maximum number of cached loops. Encoding a loop takes up to 30 ms of CPU (measured); a loop has at most 80 kB. */
const loopsMax = 128;
/** Number of pitches to choose from: quarter tones from A2 over three octaves. */
const pitches = 72;

type Sample = (seconds: number, baseHz: number) => number;

const turn = 2 * Math.PI;
/** Major chord up and down, with one note per half second of the loop. */
const arpeggio = [1, 5 / 4, 3 / 2, 5 / 4];

const samples: Record<Timbre, Sample> = {
  // Speech-like: four swells per second of a tone with overtones.
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
  // Rising tone, repeated every half second.
  effect: (seconds, hz) => {
    const within = seconds % 0.5;
    return 0.4 * Math.exp(-5 * within) * Math.sin(turn * hz * (1 + 2 * within) * within);
  },
};

/** Encoded frames to repeat. */
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

/** Creates a generator of MP3s. While `size.tiny` is set, the name does not change the pitch. */
export function createTones(size: MediaSize) {
  const loops = new Map<string, Loop>();
  let encoder: Promise<Encoder> | undefined;

  const findOrEncodeLoop = async (tone: Tone): Promise<Loop> => {
    const pitch = size.tiny ? 0 : deriveSeed(tone.name) % pitches;
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
    /** Generates an MP3. Its duration is rounded to frames, with at least one frame. */
    generate: async (tone: Tone): Promise<Buffer> => {
      const { frames, frameSeconds } = await findOrEncodeLoop(tone);
      const length = Math.max(1, Math.round(tone.durationSeconds / frameSeconds));
      const all = Array.from({ length }, (_, index) => frames[index % frames.length] ?? frames[0]);
      return Buffer.concat(all.filter((frame) => frame !== undefined));
    },
  };
}

/** Generator of MP3s. */
export type Tones = ReturnType<typeof createTones>;
