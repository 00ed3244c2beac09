/** POST /studio/video/merge: joins videos in order, optionally with a sound track. */
import { z } from 'zod';
import { assert, fieldError } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type {
  DraftCall,
  InputMeasurements,
  MeasuredInput,
  PlanInput,
} from '../../domain/draft-plan.ts';
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
      calculateUsd(...measured) {
        throwIfTooLarge(measured.slice(0, videoUrls.length));
        return videoMerger.usdPerSecond;
      },
      describeOutput(...measured) {
        const durationSeconds = sumSeconds(measured.slice(0, videoUrls.length));
        return {
          quantity: Math.max(1, Math.ceil(durationSeconds)),
          expected: { durationSeconds },
          variants: [],
        };
      },
      ...(!isJoin && { buildInput: (...measured) => buildTimeLine(body, measured) }),
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

function readSeconds({ durationSeconds }: InputMeasurements): number {
  assert(durationSeconds !== null, 'a measured video has no duration');
  return durationSeconds;
}

function sumSeconds(videos: readonly InputMeasurements[]): number {
  return videos.reduce((sum, video) => sum + readSeconds(video), 0);
}

/**
 * Throws if the result would be too long, or a video is too large.
 * @throws GatewayError INVALID_REQUEST
 */
function throwIfTooLarge(videos: readonly InputMeasurements[]): void {
  const seconds = sumSeconds(videos);
  if (seconds > secondsMax) {
    const message = `the videos must last at most ${secondsMax} seconds together (received ${Math.ceil(seconds)})`;
    throw fieldError('INVALID_REQUEST', 'videoUrls', message);
  }
  for (const [index, { width, height }] of videos.entries()) {
    if (Math.max(width, height) <= edgeMax) continue;
    const message = `the video must have edges of at most ${edgeMax} pixels (received ${width}×${height})`;
    throw fieldError('INVALID_REQUEST', `videoUrls.${index}`, message);
  }
}

/**
 * Builds the provider's time line, in milliseconds: a track with the videos, in mode `mix` a track
 * with their sound, and a track with the sound track.
 */
function buildTimeLine(body: MergeRequest, measured: readonly MeasuredInput[]): JsonObject {
  const videos = measured.slice(0, body.videoUrls.length);
  const sound = measured.at(-1);
  assert(sound, 'the sound track has not been measured');
  let endMs = 0;
  const keyframes = videos.map((video) => {
    const timestamp = endMs;
    endMs += Math.round(readSeconds(video) * 1000);
    return { url: video.url, timestamp, duration: endMs - timestamp };
  });
  const audible = keyframes.filter((_, index) => videos[index]?.hasAudio);
  const soundMs = Math.min(endMs, Math.round(readSeconds(sound) * 1000));
  const tracks = [
    { id: 'videos', type: 'video', keyframes },
    ...(body.audioMode === 'mix' && audible.length > 0
      ? [{ id: 'sound-of-videos', type: 'audio', keyframes: audible }]
      : []),
    {
      id: 'sound-track',
      type: 'audio',
      keyframes: [{ url: sound.url, timestamp: 0, duration: soundMs }],
    },
  ];
  return { tracks };
}
