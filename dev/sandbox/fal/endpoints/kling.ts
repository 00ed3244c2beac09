/** Kling v3 pro on fal. Durations are strings; image to video names its input `start_image_url`. */
import { z } from 'zod';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { imageUrl } from './fields.ts';
import { filmOf, frameSize, ratioLikeInput, ratioOf } from './films.ts';

const latencyFactor = 4;
const resolution = '1080p';
const promptCharactersMax = 2500;

/** `"3"`, `"4"` … as pydantic literals: a number is rejected. */
function secondsFrom(min: number, max: number) {
  const all = Array.from({ length: max - min + 1 }, (_, index) => String(min + index));
  return z.enum(all);
}

const shared = {
  prompt: z.string().max(promptCharactersMax).nullish(),
  multi_prompt: z
    .array(z.object({ prompt: z.string().min(1), duration: secondsFrom(1, 15).default('5') }))
    .min(1)
    .nullish(),
  duration: secondsFrom(3, 15).default('5'),
  generate_audio: z.boolean().default(true),
  negative_prompt: z.string().default('blur, distort, and low quality'),
};

interface Prompts {
  prompt?: string | null | undefined;
  multi_prompt?: { prompt: string; duration: string }[] | null | undefined;
}

const onePrompt: [(input: Prompts) => boolean, { path: string[]; message: string }] = [
  ({ prompt, multi_prompt: shots }) => Boolean(prompt) !== Boolean(shots),
  { path: ['prompt'], message: 'Either prompt or multi_prompt must be provided, but not both' },
];

function plan(input: Prompts & { duration: string; generate_audio: boolean }) {
  const { multi_prompt: shots, generate_audio: hasAudio } = input;
  if (!shots) {
    return { prompt: input.prompt ?? '', durationSeconds: Number(input.duration), hasAudio };
  }
  const durationSeconds = shots.reduce((sum, shot) => sum + Number(shot.duration), 0);
  return { prompt: shots.map(({ prompt }) => prompt).join(' / '), durationSeconds, hasAudio };
}

/** The family's endpoints. */
export const klingEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/kling-video/v3/pro/text-to-video',
    latencyFactor,
    input: z
      .object({
        ...shared,
        aspect_ratio: z.enum(['16:9', '9:16', '1:1']).default('16:9'),
      })
      .refine(...onePrompt),
    run: async (input, context) => {
      const size = frameSize(ratioOf(input.aspect_ratio), resolution);
      return filmOf({ ...size, ...plan(input) }, context);
    },
  }),
  defineEndpoint({
    id: 'fal-ai/kling-video/v3/pro/image-to-video',
    latencyFactor,
    input: z
      .object({
        ...shared,
        start_image_url: imageUrl,
      })
      .refine(...onePrompt),
    run: async (input, context) => {
      const image = { field: 'start_image_url', url: input.start_image_url };
      const size = frameSize(await ratioLikeInput(context, image), resolution);
      return filmOf({ ...size, ...plan(input), image }, context);
    },
  }),
];
