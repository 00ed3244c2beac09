/**
 * Upscales, joins and removes the background of videos on fal. The sandbox cannot decode video: it joins encoded frames, and
 * otherwise generates a new video with the size and duration that the result should have.
 */
import { z } from 'zod';
import { MediaInputError, type MediaInput } from '../../media/media.ts';
import {
  defineEndpoint,
  type Endpoint,
  type FalFile,
  type GenerationContext,
} from '../endpoint.ts';
import { birefnetModels, operatingResolutions, resolutionFitsModel } from './birefnet.ts';
import { syncMode } from './fields.ts';
import type { Section } from '../../media/compose-film.ts';
import { generateVideo, toPlainFile } from './films.ts';

const latencyFactor = 4;
const edgeMax = 4096;
const secondsMax = 120;
const topazModels = [
  'Proteus',
  'Artemis HQ',
  'Artemis MQ',
  'Artemis LQ',
  'Nyx',
  'Nyx Fast',
  'Nyx XL',
  'Nyx HF',
  'Gaia HQ',
  'Gaia CG',
  'Starlight Precise 1',
  'Starlight Precise 2',
  'Starlight Precise 2.5',
  'Starlight HQ',
  'Starlight Mini',
  'Starlight Sharp',
  'Starlight Fast 1',
  'Starlight Fast 2',
] as const;
const level = z.number().min(0).max(1).nullish();
const videoUrl = z.string().min(1);

async function planOutput(context: GenerationContext, input: MediaInput, factor: number) {
  const { width, height, durationSeconds, hasAudio } = await context.films.probe(input);
  const size = {
    width: Math.round((width * factor) / 2) * 2,
    height: Math.round((height * factor) / 2) * 2,
  };
  if (Math.max(size.width, size.height) > edgeMax || durationSeconds > secondsMax) {
    throw new MediaInputError('too_large', input);
  }
  return { ...size, durationSeconds, hasAudio };
}

/** Endpoints of the video tools. */
export const videoToolEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/topaz/upscale/video',
    latencyFactor,
    input: z.object({
      video_url: videoUrl,
      upscale_factor: z.number().min(1).max(4).default(2),
      model: z.enum(topazModels).default('Proteus'),
      H264_output: z.boolean().default(false),
      compression: level,
      noise: level,
    }),
    run: async (input, context) => {
      const source = { field: 'video_url', url: input.video_url };
      const film = await planOutput(context, source, input.upscale_factor);
      return generateVideo({ ...film, prompt: 'upscaled' }, context);
    },
  }),
  defineEndpoint({
    id: 'fal-ai/ffmpeg-api/merge-videos',
    input: z.object({
      video_urls: z.array(videoUrl).min(2),
      target_fps: z.number().min(1).max(60).nullish(),
      resolution: z.unknown().optional(),
    }),
    run: async ({ video_urls }, { films }) => {
      const media = [await films.join(video_urls.map((url) => ({ field: 'video_urls', url })))];
      return { media, output: ([video]) => ({ video: toPlainFile(video), metadata: {} }) };
    },
  }),
  defineEndpoint({
    id: 'fal-ai/ffmpeg-api/compose',
    input: z.object({
      tracks: z
        .array(
          z.object({
            id: z.string(),
            type: z.enum(['video', 'audio']),
            keyframes: z
              .array(
                z.object({
                  url: videoUrl,
                  timestamp: z.number().min(0),
                  duration: z.number().gt(0),
                }),
              )
              .min(1),
          }),
        )
        .min(1),
    }),
    run: async ({ tracks }, { films, pictures, requestSeed: seed }) => {
      const listSections = (wanted: 'video' | 'audio'): Section[] =>
        tracks
          .filter(({ type }) => type === wanted)
          .flatMap(({ keyframes }) => keyframes)
          .map(({ url, timestamp, duration }) => ({
            input: { field: 'tracks', url },
            startSeconds: timestamp / 1000,
            durationSeconds: duration / 1000,
          }));
      const film = await films.compose({
        videos: listSections('video'),
        sounds: listSections('audio'),
      });
      const drawing = {
        prompt: 'thumbnail',
        seed,
        index: 0,
        format: 'jpeg',
        transparent: false,
      } as const;
      const thumbnail = await pictures.draw({ ...drawing, width: 64, height: 64 });
      return {
        media: [film, thumbnail],
        output: ([video, picture]) => ({ video_url: video?.url, thumbnail_url: picture?.url }),
      };
    },
  }),
  defineEndpoint({
    id: 'fal-ai/birefnet/v2/video',
    latencyFactor,
    input: z
      .object({
        video_url: videoUrl,
        model: z.enum(birefnetModels).default('General Use (Light)'),
        operating_resolution: z.enum(operatingResolutions).default('1024x1024'),
        output_mask: z.boolean().default(false),
        refine_foreground: z.boolean().default(true),
        sync_mode: syncMode,
        // fal's other containers need encoders that the sandbox does not have.
        video_output_type: z.literal('X264 (.mp4)').default('X264 (.mp4)'),
      })
      .refine(...resolutionFitsModel),
    run: async (input, context) => {
      const film = await planOutput(context, { field: 'video_url', url: input.video_url }, 1);
      const { requestSeed: seed, films } = context;
      const video = await films.film({ ...film, seed, prompt: 'background removed' });
      const mask = input.output_mask
        ? await films.film({ ...film, seed, prompt: 'mask' })
        : undefined;
      return {
        media: mask ? [video, mask] : [video],
        output: ([file, mask_video]: FalFile[]) => ({
          video: file,
          ...(mask_video && { mask_video }),
        }),
      };
    },
  }),
];
