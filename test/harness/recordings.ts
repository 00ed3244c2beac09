/** Looks at recordings with a reader that shares no code with ours: mediabunny over whole bytes. */
import { ALL_FORMATS, BufferSource, EncodedPacketSink, Input } from 'mediabunny';

/** What a recording is. */
export interface Heard {
  mimeType: string;
  codec: string | null;
  sampleRate: number;
  durationSeconds: number;
  /** MPEG frames, or packets of another codec. */
  packets: number;
}

/** Fetches a result and looks at it. */
export async function hear(url: string): Promise<Heard> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return hearBytes(new Uint8Array(await answer.arrayBuffer()));
}

/** Looks at a recording. */
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
