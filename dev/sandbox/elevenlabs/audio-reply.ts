/** Audio responses and their formats. */
import { CallRefusedError, type CallContext, type Reply } from '../calls/call.ts';
import { spoil } from '../faults.ts';
import type { Exchange } from '../http.ts';
import type { Mp3Format } from '../media/tones.ts';

const formats: Record<string, Mp3Format> = {
  mp3_22050_32: { sampleRate: 22_050, bitrateKbps: 32 },
  mp3_24000_48: { sampleRate: 24_000, bitrateKbps: 48 },
  mp3_44100_32: { sampleRate: 44_100, bitrateKbps: 32 },
  mp3_44100_64: { sampleRate: 44_100, bitrateKbps: 64 },
  mp3_44100_96: { sampleRate: 44_100, bitrateKbps: 96 },
  mp3_44100_128: { sampleRate: 44_100, bitrateKbps: 128 },
  mp3_44100_192: { sampleRate: 44_100, bitrateKbps: 192 },
  mp3_48000_128: { sampleRate: 48_000, bitrateKbps: 128 },
  mp3_48000_192: { sampleRate: 48_000, bitrateKbps: 192 },
  mp3_48000_320: { sampleRate: 48_000, bitrateKbps: 320 },
};

/**
 * Returns the format of the query.
 * @throws CallRefusedError if it is unknown, or the sandbox has no encoder for it
 */
export function formatOf({ url }: Exchange, preset = 'mp3_44100_128'): Mp3Format {
  const asked = url.searchParams.get('output_format') ?? preset;
  const format = formats[asked === 'auto' ? preset : asked];
  if (format) return format;
  const isReal = /^(pcm|wav|opus|ulaw|alaw|mp3)_\d+(_\d+)?$/.test(asked);
  throw new CallRefusedError(400, {
    code: 'invalid_output_format',
    message: isReal
      ? `The sandbox makes MP3 only, not ${asked}.`
      : `Unknown output format ${asked}.`,
    param: 'output_format',
  });
}

/** Makes a response of MP3 bytes. */
export function mp3Reply(
  bytes: Buffer,
  context: CallContext,
  headers: Record<string, string> = {},
): Reply {
  return { contentType: 'audio/mpeg', bytes: spoil(bytes, context.faults), headers };
}
