/** POST /studio/video/remove-background (spec §4.10). */
import { videoBackgroundRemover } from '../catalog/video-models.ts';
import { defineVideoTool } from './video-tool.ts';

/** Removes the background of a video; MP4 knows no transparency, so it becomes plain. */
export const videoRemoveBackground = defineVideoTool(
  {
    type: 'videoRemoveBackground',
    path: '/studio/video/remove-background',
    summary: 'Remove the background of a video',
  },
  videoBackgroundRemover,
);
