/** BiRefNet v2 on fal: removes the background of images. */
import { z } from 'zod';
import { defineEndpoint, type Endpoint, type FalFile } from '../endpoint.ts';
import { imageUrl, syncMode } from './fields.ts';

/** Variants of BiRefNet, for images and videos. */
export const birefnetModels = [
  'General Use (Light)',
  'General Use (Light 2K)',
  'General Use (Heavy)',
  'Matting',
  'Portrait',
  'General Use (Dynamic)',
] as const;
/** Resolutions at which BiRefNet can compute its mask. */
export const operatingResolutions = ['1024x1024', '2048x2048', '2304x2304'] as const;

/** Arguments for `refine`: only the dynamic variant supports the highest resolution, as documented. */
export const resolutionFitsModel: [
  (input: { model: string; operating_resolution: string }) => boolean,
  { path: string[]; message: string },
] = [
  (input: { model: string; operating_resolution: string }) =>
    input.operating_resolution !== '2304x2304' || input.model === 'General Use (Dynamic)',
  {
    path: ['operating_resolution'],
    message: "2304x2304 is only available for the 'General Use (Dynamic)' model",
  },
];

/** Endpoints of BiRefNet. */
export const birefnetEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/birefnet/v2',
    input: z
      .object({
        image_url: imageUrl,
        model: z.enum(birefnetModels).default('General Use (Light)'),
        operating_resolution: z.enum(operatingResolutions).default('1024x1024'),
        output_format: z.enum(['webp', 'png', 'gif']).default('png'),
        output_mask: z.boolean().default(false),
        mask_only: z.boolean().default(false),
        refine_foreground: z.boolean().default(true),
        sync_mode: syncMode,
      })
      .refine(...resolutionFitsModel),
    run: async (input, { pictures }) => {
      const source = { field: 'image_url', url: input.image_url };
      const operatingEdge = Number.parseInt(input.operating_resolution, 10);
      const cut = await pictures.cutOut(source, { operatingEdge, format: input.output_format });
      if (input.mask_only) {
        return { media: [cut.mask], output: ([image]: FalFile[]) => ({ image }) };
      }
      if (!input.output_mask) {
        return { media: [cut.image], output: ([image]: FalFile[]) => ({ image }) };
      }
      return {
        media: [cut.image, cut.mask],
        output: ([image, mask_image]: FalFile[]) => ({ image, mask_image }),
      };
    },
  }),
];
