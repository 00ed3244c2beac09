/** Kling v3 pro on fal. Durations are strings, and image to video has the input `start_image_url`. */
import { z } from 'zod';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { imageUrl } from './fields.ts';
import {
  checkLastFrame,
  generateVideo,
  frameSize,
  readAspectRatio,
  parseAspectRatio,
} from './films.ts';

const latencyFactor = 4;
const resolution = '1080p';
const promptCharactersMax = 2500;

/** Builds the schema of a duration: whole seconds as a string, because fal rejects numbers. */
function durationSchema(min: number, max: number) {
  const all = Array.from({ length: max - min + 1 }, (_, index) => String(min + index));
  return z.enum(all);
}

const shared = {
  prompt: z.string().max(promptCharactersMax).nullish(),
  multi_prompt: z
    .array(z.object({ prompt: z.string().min(1), duration: durationSchema(1, 15).default('5') }))
    .min(1)
    .nullish(),
  duration: durationSchema(3, 15).default('5'),
  generate_audio: z.boolean().default(true),
  negative_prompt: z.string().default('blur, distort, and low quality'),
};

interface Prompts {
  prompt?: string | null | undefined;
  multi_prompt?: { prompt: string; duration: string }[] | null | undefined;
}

const hasOnePrompt: [(input: Prompts) => boolean, { path: string[]; message: string }] = [
  ({ prompt, multi_prompt: shots }) => Boolean(prompt) !== Boolean(shots),
  { path: ['prompt'], message: 'Either prompt or multi_prompt must be provided, but not both' },
];

function planShots(input: Prompts & { duration: string; generate_audio: boolean }) {
  const { multi_prompt: shots, generate_audio: hasAudio } = input;
  if (!shots) {
    return { prompt: input.prompt ?? '', durationSeconds: Number(input.duration), hasAudio };
  }
  const durationSeconds = shots.reduce((sum, shot) => sum + Number(shot.duration), 0);
  return { prompt: shots.map(({ prompt }) => prompt).join(' / '), durationSeconds, hasAudio };
}

/** Endpoints of Kling. */
export const klingEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/kling-video/v3/pro/text-to-video',
    latencyFactor,
    input: z
      .object({
        ...shared,
        aspect_ratio: z.enum(['16:9', '9:16', '1:1']).default('16:9'),
      })
      .refine(...hasOnePrompt),
    run: async (input, context) => {
      const size = frameSize(parseAspectRatio(input.aspect_ratio), resolution);
      return generateVideo({ ...size, ...planShots(input) }, context);
    },
  }),
  defineEndpoint({
    id: 'fal-ai/kling-video/v3/pro/image-to-video',
    latencyFactor,
    input: z
      .object({
        ...shared,
        start_image_url: imageUrl,
        end_image_url: imageUrl.nullish(),
      })
      .refine(...hasOnePrompt),
    run: async (input, context) => {
      const image = { field: 'start_image_url', url: input.start_image_url };
      const size = frameSize(await readAspectRatio(context, image), resolution);
      await checkLastFrame(context, 'end_image_url', input.end_image_url);
      return generateVideo({ ...size, ...planShots(input), image }, context);
    },
  }),
];
