/**
 * Table of video models: each row defines the public id, parameters, routes and price of a model. A
 * new model needs only a row.
 *
 * The specification (§4.10) defines the public ids and the durations. The provider endpoints, enums
 * and prices are from the providers' documentation, which docs/providers.md summarizes.
 */
import {
  type FieldMap,
  seedRule,
  type CatalogRow,
  type ParameterRules,
  type PixelsMax,
} from './model-parameters.ts';

/**
 * Route of a video model. It has one provider endpoint for requests with only a prompt, one for
 * requests with a first frame, and one for requests with reference pictures.
 */
export interface VideoRoute extends FieldMap {
  provider: string;
  fromText: string;
  fromImage: string;
  /**
   * Provider endpoint for requests with a first and a last frame, with its names of the two fields;
   * absent if `fromImage` takes both.
   */
  fromBothFrames?: { providerEndpoint: string; rename: Readonly<Record<string, string>> };
  fromReferences?: string;
}

/** Video model: a row of the video model table. */
export interface VideoModel extends CatalogRow {
  parameters: ParameterRules;
  /** Fields not allowed together with `imageUrl`, because the picture determines their values. */
  determinedByImage?: readonly string[];
  routes: readonly VideoRoute[];
  pixelsMax: PixelsMax;
  /** Prices per second; the first price that matches the request applies. */
  usdPerSecond: readonly VideoPrice[];
}

/** Price of one second of a video, for requests whose fields have the values in `when`. */
export interface VideoPrice {
  when: Readonly<Record<string, string | boolean>>;
  /** Price in USD. */
  usd: number;
  /**
   * Number of pixels of a video frame. A delivered video with fewer pixels costs at most this
   * price, even if the request asked for a larger one.
   */
  pixelsBelow?: number;
}

const falFieldNames = { durationSeconds: 'duration', referenceUrls: 'image_urls' } as const;
const generateAudio = { oneOf: [true, false], default: true } as const;
const negativePrompt = { charactersMax: 2000 } as const;
const seedanceRatios = ['21:9', '16:9', '4:3', '1:1', '3:4', '9:16'] as const;

interface SeedanceModel {
  version: string;
  secondsMax: number;
  referencesMax: number;
  /** False for version 2.5, which does not support a seed. */
  supportsSeed: boolean;
  usd: { '480p': number; '720p': number };
}

function createSeedance(row: SeedanceModel): VideoModel {
  const endpointPrefix = `bytedance/seedance-${row.version}`;
  return {
    id: `seedance-${row.version}`,
    displayName: `Seedance ${row.version}`,
    servedBy: `Seedance ${row.version}`,
    typicalSeconds: 90,
    pixelsMax: { '480p': 450_000, '720p': 1_000_000 },
    parameters: {
      imageUrl: {},
      endImageUrl: {},
      referenceUrls: { itemsMax: row.referencesMax },
      durationSeconds: { min: 4, max: row.secondsMax, default: 5 },
      aspectRatio: { oneOf: seedanceRatios },
      resolution: { oneOf: ['480p', '720p'], default: '720p' },
      generateAudio,
      ...(row.supportsSeed && { seed: seedRule }),
    },
    routes: [
      {
        provider: 'fal',
        fromText: `${endpointPrefix}/text-to-video`,
        fromImage: `${endpointPrefix}/image-to-video`,
        fromReferences: `${endpointPrefix}/reference-to-video`,
        rename: falFieldNames,
        asText: { durationSeconds: '' },
      },
    ],
    usdPerSecond: [
      // For all aspect ratios, 480p has at most 430,000 pixels per frame, 720p at least 510,000.
      { when: { resolution: '480p' }, usd: row.usd['480p'], pixelsBelow: 450_000 },
      { when: { resolution: '720p' }, usd: row.usd['720p'] },
    ],
  };
}

/** Video models in the order of the spec; the first is the default. */
export const videoModels: readonly VideoModel[] = [
  {
    id: 'veo',
    displayName: 'Veo',
    servedBy: 'Veo 3.1',
    typicalSeconds: 90,
    pixelsMax: { '720p': 1280 * 720, '1080p': 1920 * 1080 },
    parameters: {
      imageUrl: {},
      endImageUrl: {},
      durationSeconds: { oneOf: [4, 6, 8], default: 8 },
      aspectRatio: { oneOf: ['16:9', '9:16'] },
      resolution: { oneOf: ['720p', '1080p'], default: '720p' },
      generateAudio,
      negativePrompt,
      seed: seedRule,
    },
    routes: [
      {
        provider: 'fal',
        fromText: 'fal-ai/veo3.1',
        fromImage: 'fal-ai/veo3.1/image-to-video',
        fromBothFrames: {
          providerEndpoint: 'fal-ai/veo3.1/first-last-frame-to-video',
          rename: { imageUrl: 'first_frame_url', endImageUrl: 'last_frame_url' },
        },
        rename: falFieldNames,
        asText: { durationSeconds: 's' },
      },
    ],
    usdPerSecond: [
      { when: { generateAudio: true }, usd: 0.4 },
      { when: { generateAudio: false }, usd: 0.2 },
    ],
  },
  {
    id: 'kling-3.0-pro',
    displayName: 'Kling 3.0 Pro',
    servedBy: 'Kling 3.0 Pro',
    typicalSeconds: 180,
    pixelsMax: 1920 * 1080,
    parameters: {
      prompt: { charactersMax: 2500 },
      imageUrl: {},
      endImageUrl: {},
      durationSeconds: { min: 3, max: 15, default: 5 },
      aspectRatio: { oneOf: ['16:9', '9:16', '1:1'] },
      generateAudio,
      negativePrompt,
    },
    determinedByImage: ['aspectRatio'],
    routes: [
      {
        provider: 'fal',
        fromText: 'fal-ai/kling-video/v3/pro/text-to-video',
        fromImage: 'fal-ai/kling-video/v3/pro/image-to-video',
        rename: { ...falFieldNames, imageUrl: 'start_image_url' },
        asText: { durationSeconds: '' },
      },
    ],
    usdPerSecond: [
      { when: { generateAudio: true }, usd: 0.168 },
      { when: { generateAudio: false }, usd: 0.112 },
    ],
  },
  createSeedance({
    version: '2.5',
    secondsMax: 30,
    referencesMax: 30,
    supportsSeed: false,
    usd: { '480p': 0.2205, '720p': 0.473 },
  }),
  createSeedance({
    version: '2.0',
    secondsMax: 15,
    referencesMax: 9,
    supportsSeed: true,
    usd: { '480p': 0.1346, '720p': 0.3034 },
  }),
];
