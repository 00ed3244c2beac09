/**
 * Tools that process a video, with their limits, prices and routes. The provider endpoints and
 * prices are from docs/providers.md.
 */
import type { CatalogRow, FieldMap } from './model-parameters.ts';

/** Tool that processes a video; its price depends on the duration of the input. */
export interface VideoTool extends CatalogRow {
  route: FieldMap & { provider: string; providerEndpoint: string };
  /** Factor by which the tool multiplies the edges of the input. */
  scale: number;
  inputSecondsMax: number;
  /** Maximum length of the result's longer edge, in pixels. */
  outputEdgeMax: number;
  /**
   * Prices per second of input in USD, which depend on the number of pixels of a result frame. The
   * first row with a sufficient `pixelsMax` applies.
   */
  usdPerSecond: readonly { pixelsMax: number; usd: number }[];
}

/** Tool of video/upscale. */
export const videoUpscaler: VideoTool = {
  id: 'video-upscale',
  displayName: 'Video upscale',
  servedBy: 'Topaz Video',
  typicalSeconds: 180,
  route: {
    provider: 'fal',
    providerEndpoint: 'fal-ai/topaz/upscale/video',
    constantFields: { upscale_factor: 2, H264_output: true },
  },
  scale: 2,
  inputSecondsMax: 120,
  outputEdgeMax: 4096,
  usdPerSecond: [
    { pixelsMax: 1280 * 720, usd: 0.01 },
    { pixelsMax: 1920 * 1080, usd: 0.02 },
    { pixelsMax: 4096 * 4096, usd: 0.06 },
  ],
};

/**
 * Tool of video/remove-background. This project sets the price, because the provider publishes no
 * price per second.
 */
export const videoBackgroundRemover: VideoTool = {
  id: 'video-remove-background',
  displayName: 'Video background removal',
  servedBy: 'BiRefNet v2 video',
  typicalSeconds: 60,
  route: {
    provider: 'fal',
    providerEndpoint: 'fal-ai/birefnet/v2/video',
    constantFields: { video_output_type: 'X264 (.mp4)' },
  },
  scale: 1,
  inputSecondsMax: 120,
  outputEdgeMax: 4096,
  usdPerSecond: [{ pixelsMax: 4096 * 4096, usd: 0.02 }],
};

/** Tool that joins videos in order; its price depends on the duration of the result. */
export interface VideoMerger extends CatalogRow {
  provider: string;
  /** Provider endpoint that joins videos with their own sound. */
  joinEndpoint: string;
  /**
   * Provider endpoint that places videos and sounds on a time line. The sound of a video is included
   * only if it is a track of its own.
   */
  composeEndpoint: string;
  /** Maximum duration of the result in seconds. */
  secondsMax: number;
  /** Maximum length of a video's longer edge, in pixels. */
  edgeMax: number;
  usdPerSecond: number;
}

/** Tool of video/merge. */
export const videoMerger: VideoMerger = {
  id: 'video-merge',
  displayName: 'Video merge',
  servedBy: 'FFmpeg',
  typicalSeconds: 30,
  provider: 'fal',
  joinEndpoint: 'fal-ai/ffmpeg-api/merge-videos',
  composeEndpoint: 'fal-ai/ffmpeg-api/compose',
  secondsMax: 600,
  edgeMax: 4096,
  usdPerSecond: 0.0002,
};
