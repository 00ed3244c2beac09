/** Audio answers: the formats that can be asked for, and faults in the bytes. */
import { CallRefusedError, type CallContext, type Reply } from '../calls/call.ts';
import { findFault } from '../faults.ts';
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
 * The format that the query asks for.
 * @throws CallRefusedError when there is no such format, or the sandbox has no encoder for it.
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

const errorPage = Buffer.from('<!doctype html><title>Error</title><h1>Bad gateway</h1>');

/** The bytes, unless a fault spoils them: empty, a web page, or silently half. */
export function spoil(bytes: Buffer, { faults }: CallContext): Buffer {
  if (findFault(faults, 'empty-media')) return Buffer.alloc(0);
  if (findFault(faults, 'wrong-type-media')) return errorPage;
  const isHalf = findFault(faults, 'truncated-media')?.argument === 'silent';
  return isHalf ? bytes.subarray(0, Math.floor(bytes.length / 2)) : bytes;
}

/** An answer of raw MP3 bytes. */
export function mp3Reply(
  bytes: Buffer,
  context: CallContext,
  headers: Record<string, string> = {},
): Reply {
  return { contentType: 'audio/mpeg', bytes: spoil(bytes, context), headers };
}
