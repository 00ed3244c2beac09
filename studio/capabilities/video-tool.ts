/** Declares tools that process one video: one call, priced by the input's duration. */
import { z } from 'zod';
import { calculateUnitPrice, type UnitPrice, videoToolPriceRules } from '../models/price-rules.ts';
import type { VideoTool } from '../models/video-tools.ts';
import { fieldError, type GatewayError, assert } from '../../domain/errors.ts';
import { defineCapability, type Capability } from './capability.ts';
import type { InputMeasurements, MeasuredOutput } from '../../domain/draft-plan.ts';
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
              calculateUsd: (input) => calculateVideoPrice(tool, input).usd,
              describeOutput: (input) => describeOutput(tool, input),
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

function calculateVideoPrice(
  tool: VideoTool,
  { width, height, durationSeconds }: InputMeasurements,
): UnitPrice {
  assert(durationSeconds !== null, 'a measured video has no duration');
  const longerOutputEdge = Math.max(width, height) * tool.scale;
  if (durationSeconds > tool.inputSecondsMax) {
    throw createVideoError(
      `must last at most ${tool.inputSecondsMax} seconds (received ${Math.ceil(durationSeconds)})`,
    );
  }
  if (longerOutputEdge > tool.outputEdgeMax) {
    throw createVideoError(
      `must have edges of at most ${tool.outputEdgeMax / tool.scale} pixels (received ${width}×${height})`,
    );
  }
  const [rule] = videoToolPriceRules(tool);
  return calculateUnitPrice(rule, {}, width * height * tool.scale ** 2);
}

function describeOutput(tool: VideoTool, input: InputMeasurements): MeasuredOutput {
  const { durationSeconds } = input;
  assert(durationSeconds !== null, 'a measured video has no duration');
  return {
    // Every started second is charged.
    quantity: Math.max(1, Math.ceil(durationSeconds)),
    expected: {
      width: input.width * tool.scale,
      height: input.height * tool.scale,
      durationSeconds,
    },
    variants: calculateVideoPrice(tool, input).smaller,
  };
}

function createVideoError(message: string): GatewayError {
  return fieldError('INVALID_REQUEST', 'videoUrl', `the video ${message}`);
}
