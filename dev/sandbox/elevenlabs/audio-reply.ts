/** Parses the output format of audio endpoints, and builds their responses. */
import { CallRejectedError, type CallContext, type Reply } from '../calls/call.ts';
import { applyMediaFault } from '../faults.ts';
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
 * Parses the query parameter `output_format`.
 * @throws CallRejectedError if it is unknown, or the sandbox has no encoder for it
 */
export function parseOutputFormat({ url }: Exchange, preset = 'mp3_44100_128'): Mp3Format {
  const requested = url.searchParams.get('output_format') ?? preset;
  const format = formats[requested === 'auto' ? preset : requested];
  if (format) return format;
  const isRealFormat = /^(pcm|wav|opus|ulaw|alaw|mp3)_\d+(_\d+)?$/.test(requested);
  throw new CallRejectedError(400, {
    code: 'invalid_output_format',
    message: isRealFormat
      ? `The sandbox only supports MP3 formats, not ${requested}.`
      : `Unknown output format ${requested}.`,
    param: 'output_format',
  });
}

/** Builds a response with MP3 bytes. */
export function buildMp3Reply(
  bytes: Buffer,
  context: CallContext,
  headers: Record<string, string> = {},
): Reply {
  return { contentType: 'audio/mpeg', bytes: applyMediaFault(bytes, context.faults), headers };
}
