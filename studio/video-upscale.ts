/** POST /studio/video/upscale (spec §4.10): twice the edges. */
import { videoUpscaler } from '../catalog/video-models.ts';
import { defineVideoTool } from './video-tool.ts';

/** Enlarges a video. */
export const videoUpscale = defineVideoTool(
  { type: 'videoUpscale', path: '/studio/video/upscale', summary: 'Upscale a video' },
  videoUpscaler,
);
