/**
 * Makes recordings with an encoder, and reads them with mediabunny over whole bytes; neither shares code with the
 * gateway.
 */
import { createMp3Encoder } from 'wasm-media-encoders';
import { ALL_FORMATS, BufferSource, EncodedPacketSink, Input } from 'mediabunny';

/** The properties of a recording. */
export interface Recording {
  mimeType: string;
  codec: string | null;
  sampleRate: number;
  durationSeconds: number;
  /** MPEG frames, or packets of another codec. */
  packets: number;
}

/** Returns an MP3 of a tone of this length. */
export async function recordTone(seconds: number): Promise<Uint8Array<ArrayBuffer>> {
  const encoder = await createMp3Encoder();
  encoder.configure({ sampleRate: 44_100, channels: 1, bitrate: 64 });
  const samples = Float32Array.from({ length: seconds * 44_100 }, (_, at) => Math.sin(at / 20));
  // The encoder uses its buffer again.
  return new Uint8Array(Buffer.concat([encoder.encode([samples]).slice(), encoder.finalize()]));
}

/** Downloads a recording and returns its properties. */
export async function fetchRecording(url: string): Promise<Recording> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return readRecording(new Uint8Array(await answer.arrayBuffer()));
}

/** Returns the properties of a recording. */
export async function readRecording(bytes: Uint8Array): Promise<Recording> {
  const input = new Input({ source: new BufferSource(bytes), formats: ALL_FORMATS });
  try {
    const track = await input.getPrimaryAudioTrack();
    if (!track) throw new Error('there is no sound in it');
    let packets = 0;
    for await (const _ of new EncodedPacketSink(track).packets()) packets += 1;
    return {
      mimeType: await input.getMimeType(),
      codec: track.codec,
      sampleRate: track.sampleRate,
      durationSeconds: await track.computeDuration(),
      packets,
    };
  } finally {
    input.dispose();
  }
}
