/** POST /studio/video/upscale (spec §4.10): doubles the width and height of a video. */
import { videoUpscaler } from '../models/video-tools.ts';
import { defineVideoTool } from './video-tool.ts';

/** Upscales a video. */
export const videoUpscale = defineVideoTool(
  { type: 'videoUpscale', path: '/studio/video/upscale', summary: 'Upscale a video' },
  videoUpscaler,
);
