/** POST /api/v1/audio/speech: voiceoverGenerate, as OpenAI's clients ask for it; the answer is the sound. */
import { z } from 'zod';
import { audioModels } from '../../../catalog/audio-models.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { voiceoverGenerate } from '../../../studio/voiceover-generate.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { defineOperation, ownAnswer } from '../operation.ts';
import { bareHeaders, studioHeaders } from '../studio.ts';
import { artifactsOf, bytesOf, finishedJob, jobErrors, requestOf } from './finished-job.ts';

const model = audioModels.voiceover;
const titleMax = 120;

const speech = bodySchema(
  z.object({
    model: z.string().max(256).meta({ example: model.id }),
    input: z.string().max(model.limits.text.max),
    voice: z
      .union([z.string().max(64), z.object({ id: z.string().max(64) }).transform(({ id }) => id)])
      .meta({ description: 'One of the voices of GET /api/v1/studio/voices.' }),
    response_format: z.literal('mp3', 'must be mp3: voices are MP3 here').nullish(),
    stream_format: z.literal('audio', 'must be audio: speech comes whole').nullish(),
    speed: z.literal(1, 'must be 1: voices have one speed here').nullish(),
    instructions: z.literal('', 'is not taken here: say it in the text').nullish(),
  }),
);

/** What a voiceover is called that its client gave no name: how it begins. */
function titleOf(text: string): string {
  return Array.from(text.trim()).slice(0, titleMax).join('') || text;
}

/** See the file's head. */
export const audioSpeech = defineOperation({
  route: 'POST /api/v1/audio/speech',
  scope: 'studio:audio',
  errorShape: 'openai',
  summary: 'Turn text into speech (OpenAI-compatible)',
  description: 'The same job as POST /api/v1/studio/voiceover/generate. Returns the audio itself.',
  request: {
    headers: studioHeaders,
    body: speech,
    example: { model: model.id, input: 'Welcome to the harbour.', voice: 'rachel' },
  },
  answer: ownAnswer,
  answers: {
    200: {
      description: 'The sound.',
      type: 'audio/mpeg',
      headers: bareHeaders,
      schema: z.string().meta({ format: 'binary' }),
    },
  },
  errors: [...jobErrors, 'NOT_FOUND'],
  async handle({ ctx, body }, services) {
    findByAnyName([model], body.model);
    const { input: text, voice } = body;
    const job = await finishedJob(
      ctx,
      {
        capability: voiceoverGenerate,
        read: (_, capability) => requestOf(capability, { text, title: titleOf(text), voice }),
      },
      services,
    );
    const { stream, sizeBytes, contentType } = await bytesOf(artifactsOf(job)[0], services);
    ctx.type = contentType;
    ctx.length = sizeBytes;
    ctx.body = stream;
  },
});
