/** Declares tools that process one video: one call, priced by the input's duration. */
import { z } from 'zod';
import { toPixelPrice, videoToolPriceRules } from '../models/price-rules.ts';
import type { VideoTool } from '../models/video-tools.ts';
import { defineCapability, type Capability } from './capability.ts';
import { publishModels } from '../models/published-models.ts';
import { presentVideo, videoData } from './presentation.ts';
import { asyncFlag, mediaUrl } from './request-fields.ts';
import { buildProviderInput } from '../models/model-parameters.ts';

interface VideoToolNames {
  type: string;
  path: `/studio/video/${string}`;
  summary: string;
}

const request = z.strictObject({ videoUrl: mediaUrl, async: asyncFlag });

/** Declares a video tool; its endpoint always returns 202. */
export function defineVideoTool(
  { type, path, summary }: VideoToolNames,
  tool: VideoTool,
): Capability {
  const { id, route } = tool;
  return defineCapability({
    type,
    path,
    medium: 'video',
    summary,
    request,
    takes: { videoUrl: ['video'] },
    example: { videoUrl: 'https://example.com/film.mp4' },
    data: videoData,
    models: publishModels([tool], { selectedBy: () => ({}), price: videoToolPriceRules }),
    plan(body) {
      const source = { field: 'videoUrl', url: body.videoUrl, medium: 'video' } as const;
      return {
        model: id,
        calls: [
          {
            meter: 'second',
            quantity: 1,
            typicalSeconds: tool.typicalSeconds,
            required: true,
            output: { medium: 'video', format: null },
            unitPriceUsd: {
              inputs: [source],
              rule: {
                ...toPixelPrice(videoToolPriceRules(tool)[0], {}),
                kind: 'size',
                subject: 'video',
                scale: tool.scale,
                bySecond: true,
                limits: { secondsMax: tool.inputSecondsMax, resultEdgeMax: tool.outputEdgeMax },
              },
            },
            routes: [
              {
                provider: route.provider,
                providerEndpoint: route.providerEndpoint,
                input: buildProviderInput(route, { videoUrl: body.videoUrl }),
              },
            ],
          },
        ],
        inputs: [source],
      };
    },
    present: (job) => presentVideo(job, { videoUrl: job.request['videoUrl'] ?? null }),
  });
}
