/** Reads ElevenLabs' responses: audio, songs, composition plans and transcripts. */
import { Readable } from 'node:stream';
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderResult } from '../provider.ts';
import { readJson, type ProviderResponse } from '../provider-http.ts';
import { readDetailedSong } from './detailed-song.ts';
import { parseTranscript } from './transcript.ts';

/**
 * Maximum size of a composition plan in bytes. It is limited, because Temporal's history stores the
 * plan.
 */
const planBytesMax = 48 * 1024;
const transcriptBytesMax = 16 * 1024 * 1024;

/** Returns the audio of a response as a stream. */
export function readAudio(response: ProviderResponse): Promise<ProviderResult> {
  return Promise.resolve({ outputs: [{ kind: 'stream', stream: response.body }], data: null });
}

/** Reads a song with its title and lyrics. @throws ProviderFailure `failed` */
export async function readSong(response: ProviderResponse): Promise<ProviderResult> {
  const { audio, title, lyrics } = await readDetailedSong(response);
  return { outputs: [{ kind: 'stream', stream: audio }], data: { title, lyrics } };
}

const planShape = z.object({
  positive_global_styles: z.array(z.string()),
  negative_global_styles: z.array(z.string()),
  sections: z.array(
    z.object({
      section_name: z.string(),
      positive_local_styles: z.array(z.string()),
      negative_local_styles: z.array(z.string()),
      duration_ms: z.number(),
      lines: z.array(z.string()),
    }),
  ),
});

/** Reads a composition plan. @throws ProviderFailure `failed` */
export async function readPlan(response: ProviderResponse): Promise<ProviderResult> {
  const parsedPlan = planShape.safeParse(await readPaidJson(response, planBytesMax));
  if (!parsedPlan.success)
    throw new ProviderFailure('failed', 'the provider responded without a valid composition plan');
  return { outputs: [], data: parsedPlan.data };
}

/** Reads a transcript. @throws ProviderFailure `failed` */
export async function readTranscript(response: ProviderResponse): Promise<ProviderResult> {
  const transcript = parseTranscript(await readPaidJson(response, transcriptBytesMax));
  if (!transcript) {
    throw new ProviderFailure('failed', 'the provider responded without a valid transcript');
  }
  const { language, durationSeconds } = transcript;
  const stream = Readable.from([Buffer.from(JSON.stringify(transcript))], { objectMode: false });
  return {
    outputs: [{ kind: 'stream', stream }],
    data: { language, durationSeconds },
    seconds: durationSeconds,
  };
}

/**
 * Reads the JSON body of the response to a paid call. If the response is incomplete, the call
 * fails, because the provider does not send the response again.
 * @throws ProviderFailure `failed`
 */
async function readPaidJson(response: ProviderResponse, bytesMax: number): Promise<unknown> {
  try {
    return await readJson(response.body, bytesMax);
  } catch (cause) {
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly', { cause });
  }
}
