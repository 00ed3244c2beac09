/** ByteDance's Seedance 2.0 and 2.5 on fal: text, image and reference to video. */
import { z } from 'zod';
import { defineEndpoint, type Endpoint, type GenerationContext } from '../endpoint.ts';
import { imageUrl, prompt, seed } from './fields.ts';
import {
  checkLastFrame,
  generateVideo,
  frameSize,
  readAspectRatio,
  parseAspectRatio,
} from './films.ts';

const latencyFactor = 4;
const autoSeconds = 5;

interface Version {
  root: string;
  secondsMax: number;
  /** Maximum number of reference images. */
  imagesMax: number;
}
const versions: Version[] = [
  { root: 'bytedance/seedance-2.0', secondsMax: 15, imagesMax: 9 },
  { root: 'bytedance/seedance-2.5', secondsMax: 30, imagesMax: 30 },
];

/** Builds the schema of a duration: `"auto"`, or whole seconds as a string, because fal rejects numbers. */
function durationSchema(secondsMax: number) {
  const seconds = Array.from({ length: secondsMax - 3 }, (_, index) => String(index + 4));
  return z.enum(['auto', ...seconds]).default('auto');
}

interface SeedanceInput {
  prompt: string;
  duration: string;
  resolution: string;
  aspect_ratio: string;
  generate_audio: boolean;
  seed?: number | null | undefined;
  image_url?: string | undefined;
  end_image_url?: string | null | undefined;
  image_urls?: string[] | undefined;
}

async function run(input: SeedanceInput, context: GenerationContext) {
  const [reference] = input.image_urls ?? [];
  const field = input.image_url === undefined ? 'image_urls' : 'image_url';
  const url = input.image_url ?? reference;
  const image = url === undefined ? undefined : { field, url };
  await checkLastFrame(context, 'end_image_url', input.end_image_url);
  const auto = image ? await readAspectRatio(context, image) : 16 / 9;
  const ratio = input.aspect_ratio === 'auto' ? auto : parseAspectRatio(input.aspect_ratio);
  const durationSeconds = input.duration === 'auto' ? autoSeconds : Number(input.duration);
  const size = frameSize(ratio, input.resolution);
  const { prompt: text, seed: requestedSeed, generate_audio: hasAudio } = input;
  const film = { ...size, prompt: text, seed: requestedSeed, durationSeconds, hasAudio, image };
  return generateVideo(film, context, { withSeed: true });
}

function createEndpoints({ root, secondsMax, imagesMax }: Version): Endpoint[] {
  const shared = {
    prompt: prompt(),
    duration: durationSchema(secondsMax),
    resolution: z.enum(['480p', '720p']).default('720p'),
    aspect_ratio: z.enum(['auto', '21:9', '16:9', '4:3', '1:1', '3:4', '9:16']).default('auto'),
    generate_audio: z.boolean().default(true),
    seed,
  };
  return [
    defineEndpoint({
      id: `${root}/text-to-video`,
      latencyFactor,
      input: z.object(shared),
      run,
    }),
    defineEndpoint({
      id: `${root}/image-to-video`,
      latencyFactor,
      input: z.object({ ...shared, image_url: imageUrl, end_image_url: imageUrl.nullish() }),
      run,
    }),
    defineEndpoint({
      id: `${root}/reference-to-video`,
      latencyFactor,
      input: z.object({
        ...shared,
        image_urls: z.array(imageUrl).max(imagesMax).default([]),
      }),
      run,
    }),
  ];
}

/** Endpoints of Seedance. */
export const seedanceEndpoints: Endpoint[] = versions.flatMap((version) =>
  createEndpoints(version),
);
