/** POST /studio/video/merge: joins videos in order, optionally with a sound track. */
import { z } from 'zod';
import { fieldError } from '../../domain/errors.ts';
import type { DraftCall, PlanInput } from '../../domain/draft-plan.ts';
import { mergePriceRules } from '../models/price-rules.ts';
import { publishModels } from '../models/published-models.ts';
import { videoMerger } from '../models/video-tools.ts';
import { defineCapability } from './capability.ts';
import { presentVideo, videoData } from './presentation.ts';
import { asyncFlag, mediaUrl, mediaUrls } from './request-fields.ts';

const request = z.strictObject({
  videoUrls: mediaUrls.meta({ description: 'The videos, in the order of the result.' }),
  audioUrl: mediaUrl.optional().meta({
    description:
      'Sound track. It starts with the result and ends with it at the latest. A single video requires it.',
  }),
  audioMode: z.enum(['replace', 'mix']).optional().meta({
    description:
      'With `audioUrl`: `replace` (the default) omits the sound of the videos, `mix` keeps it below the sound track.',
  }),
  async: asyncFlag,
});

type MergeRequest = z.infer<typeof request>;

const { id, provider, joinEndpoint, composeEndpoint, secondsMax, edgeMax } = videoMerger;

/** Joins up to ten videos. Its endpoint always returns 202. */
export const videoMerge = defineCapability({
  type: 'videoMerge',
  path: '/studio/video/merge',
  medium: 'video',
  summary: 'Join videos in order, with a sound track',
  request,
  takes: { videoUrls: ['video'], audioUrl: ['audio'] },
  example: {
    videoUrls: ['https://example.com/first.mp4', 'https://example.com/second.mp4'],
    audioUrl: 'https://example.com/voice.mp3',
  },
  data: videoData,
  models: publishModels([videoMerger], { selectedBy: () => ({}), price: mergePriceRules }),
  plan(body) {
    const { videoUrls, audioUrl } = body;
    if (audioUrl === undefined) throwIfNothingToMerge(body);
    const inputs = videoUrls.map((url, index): Required<PlanInput> => ({
      field: `videoUrls.${index}`,
      url,
      medium: 'video',
    }));
    if (audioUrl !== undefined) inputs.push({ field: 'audioUrl', url: audioUrl, medium: 'audio' });
    return { model: id, calls: [planMerge(body, inputs)], inputs };
  },
  present: (job) =>
    presentVideo(job, {
      videoUrls: job.request['videoUrls'] ?? null,
      audioUrl: job.request['audioUrl'] ?? null,
      audioMode: job.request['audioMode'] ?? (job.request['audioUrl'] ? 'replace' : null),
    }),
});

/** Throws if a request without a sound track has one video, or says how to use a sound track. */
function throwIfNothingToMerge({ videoUrls, audioMode }: MergeRequest): void {
  if (audioMode !== undefined) {
    throw fieldError('INVALID_REQUEST', 'audioUrl', `is required with audioMode ${audioMode}`);
  }
  if (videoUrls.length > 1) return;
  const message = `must have 2–10 videos, or 1–10 with audioUrl (received ${videoUrls.length})`;
  throw fieldError('INVALID_REQUEST', 'videoUrls', message);
}

function planMerge(body: MergeRequest, inputs: Required<PlanInput>[]): DraftCall {
  const { videoUrls, audioUrl } = body;
  const isJoin = audioUrl === undefined;
  return {
    meter: 'second',
    quantity: 1,
    typicalSeconds: videoMerger.typicalSeconds,
    required: true,
    output: { medium: 'video', format: null },
    unitPriceUsd: {
      inputs,
      rule: {
        kind: 'merge',
        videos: videoUrls.length,
        usdPerSecond: videoMerger.usdPerSecond,
        secondsMax,
        edgeMax,
        timeLine: isJoin ? null : { mixes: body.audioMode === 'mix' },
      },
    },
    routes: [
      {
        provider,
        providerEndpoint: isJoin ? joinEndpoint : composeEndpoint,
        input: isJoin ? { video_urls: videoUrls } : {},
      },
    ],
  };
}
