/** POST /studio/video/upscale (spec §4.10), by a factor of 2. */
import { videoUpscaler } from '../catalog/video-tools.ts';
import { defineVideoTool } from './video-tool.ts';

/** Upscales a video. */
export const videoUpscale = defineVideoTool(
  { type: 'videoUpscale', path: '/studio/video/upscale', summary: 'Upscale a video' },
  videoUpscaler,
);
