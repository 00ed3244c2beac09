/** Google's Veo 3.1 on fal. */
import { z } from 'zod';
import { defineEndpoint, type Endpoint, type GenerationContext } from '../endpoint.ts';
import { imageUrl, prompt, safetyTolerance, seed } from './fields.ts';
import {
  checkLastFrame,
  generateVideo,
  frameSize,
  readAspectRatio,
  parseAspectRatio,
} from './films.ts';

const latencyFactor = 4;
const shared = {
  prompt: prompt(20_000),
  duration: z.enum(['4s', '6s', '8s']).default('8s'),
  resolution: z.enum(['720p', '1080p']).default('720p'),
  generate_audio: z.boolean().default(true),
  negative_prompt: z.string().nullish(),
  seed,
  safety_tolerance: safetyTolerance,
};

const withFrames = z.object({
  ...shared,
  aspect_ratio: z.enum(['auto', '16:9', '9:16']).default('auto'),
});

/** Generates a film whose shape is that of its first frame, if the request asks for no other. */
async function animate(
  input: z.infer<typeof withFrames>,
  image: { field: string; url: string },
  context: GenerationContext,
) {
  const durationSeconds = Number.parseInt(input.duration, 10);
  const isTall = (await readAspectRatio(context, image)) < 1;
  // Inputs with other shapes are cropped to 16:9 or 9:16, as documented.
  const aspect = input.aspect_ratio === 'auto' ? (isTall ? '9:16' : '16:9') : input.aspect_ratio;
  const size = frameSize(parseAspectRatio(aspect), input.resolution);
  const { prompt: text, seed: requestedSeed, generate_audio: hasAudio } = input;
  const film = { ...size, prompt: text, seed: requestedSeed, durationSeconds, hasAudio, image };
  return generateVideo(film, context);
}

/** Endpoints of Veo. */
export const veoEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/veo3.1',
    latencyFactor,
    input: z.object({ ...shared, aspect_ratio: z.enum(['16:9', '9:16']).default('16:9') }),
    run: async (input, context) => {
      const durationSeconds = Number.parseInt(input.duration, 10);
      const size = frameSize(parseAspectRatio(input.aspect_ratio), input.resolution);
      const { prompt: text, seed: requestedSeed, generate_audio: hasAudio } = input;
      return generateVideo(
        { ...size, prompt: text, seed: requestedSeed, durationSeconds, hasAudio },
        context,
      );
    },
  }),
  defineEndpoint({
    id: 'fal-ai/veo3.1/image-to-video',
    latencyFactor,
    input: withFrames.extend({ image_url: imageUrl }),
    run: (input, context) => animate(input, { field: 'image_url', url: input.image_url }, context),
  }),
  defineEndpoint({
    id: 'fal-ai/veo3.1/first-last-frame-to-video',
    latencyFactor,
    input: withFrames.extend({ first_frame_url: imageUrl, last_frame_url: imageUrl }),
    run: async (input, context) => {
      await checkLastFrame(context, 'last_frame_url', input.last_frame_url);
      return animate(input, { field: 'first_frame_url', url: input.first_frame_url }, context);
    },
  }),
];
