/** POST /api/v1/audio/speech: voiceoverGenerate in the format of OpenAI's speech API. */
import { z } from 'zod';
import { audioModels } from '../../../studio/models/audio-models.ts';
import { findByAnyName } from '../../../studio/models/maker-names.ts';
import { voiceoverGenerate } from '../../../studio/capabilities/voiceover-generate.ts';
import { parseCapabilityFields } from '../studio-body.ts';
import { defineEndpoint, rawResponse } from '../endpoint.ts';
import { creditHeaders, studioHeaders } from '../studio-results.ts';
import { fileHeaders, jobErrors, sendArtifact, startAwaitedJob } from './finished-job.ts';

const voiceoverModel = audioModels.voiceover;
const titleCharactersMax = 120;

const speechRequest = z.object({
  model: z.string().max(256).meta({ example: voiceoverModel.id }),
  input: z.string().max(voiceoverModel.limits.text.max),
  voice: z
    .union([z.string().max(64), z.object({ id: z.string().max(64) }).transform(({ id }) => id)])
    .meta({ description: 'One of the voices of GET /api/v1/studio/voices.' }),
  response_format: z.literal('mp3', 'must be mp3: only mp3 is supported').nullish(),
  stream_format: z.literal('audio', 'must be audio: streaming is not supported').nullish(),
  speed: z.literal(1, 'must be 1: other speeds are not supported').nullish(),
  instructions: z.literal('', 'is not supported: put the instructions into `input`').nullish(),
});

/** Returns the first 120 characters of a text, which become the title of the voiceover. */
function truncateTitle(text: string): string {
  return Array.from(text.trim()).slice(0, titleCharactersMax).join('') || text;
}

/** Endpoint POST /api/v1/audio/speech. */
export const audioSpeech = defineEndpoint({
  route: 'POST /api/v1/audio/speech',
  scope: 'studio:audio',
  allowsTokens: true,
  errorFormat: 'openai',
  summary: 'Turn text into speech (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/voiceover/generate, and returns its audio file.',
  request: {
    headers: studioHeaders,
    body: speechRequest,
    example: { model: voiceoverModel.id, input: 'Welcome to the harbour.', voice: 'rachel' },
  },
  response: rawResponse,
  responses: {
    200: {
      description: 'The audio file.',
      type: 'audio/mpeg',
      headers: creditHeaders.extend(fileHeaders.shape),
      schema: z.string().meta({ format: 'binary' }),
    },
  },
  errors: [...jobErrors, 'NOT_FOUND', 'RANGE_NOT_SATISFIABLE'],
  async handle({ ctx, body }, services) {
    findByAnyName([voiceoverModel], body.model);
    const { input: text, voice } = body;
    const job = await startAwaitedJob(
      ctx,
      {
        capability: voiceoverGenerate,
        readBody: (_, capability) =>
          parseCapabilityFields(capability, { text, title: truncateTitle(text), voice }),
      },
      services,
    );
    await sendArtifact(ctx, await job.awaitCompleted(), services);
  },
});
