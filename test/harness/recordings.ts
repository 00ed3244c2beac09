/**
 * Reads recordings with mediabunny over whole bytes, a reader that shares no code with the gateway.
 */
import { ALL_FORMATS, BufferSource, EncodedPacketSink, Input } from 'mediabunny';

/** The properties of a recording. */
export interface Heard {
  mimeType: string;
  codec: string | null;
  sampleRate: number;
  durationSeconds: number;
  /** MPEG frames, or packets of another codec. */
  packets: number;
}

/** Fetches a result and returns its properties. */
export async function hear(url: string): Promise<Heard> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return hearBytes(new Uint8Array(await answer.arrayBuffer()));
}

/** Returns the properties of a recording. */
export async function hearBytes(bytes: Uint8Array): Promise<Heard> {
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
