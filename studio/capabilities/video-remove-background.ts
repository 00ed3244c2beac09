/** POST /studio/video/remove-background (spec §4.10). */
import { videoBackgroundRemover } from '../models/video-tools.ts';
import { defineVideoTool } from './video-tool.ts';

/**
 * Removes the background of a video. The removed area becomes a plain color, because MP4 does not
 * support transparency.
 */
export const videoRemoveBackground = defineVideoTool(
  {
    type: 'videoRemoveBackground',
    path: '/studio/video/remove-background',
    summary: 'Remove the background of a video',
  },
  videoBackgroundRemover,
);
