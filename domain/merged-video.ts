/** Price of a merged video by the lengths of its videos, and the provider's time line for them. */
import type { JsonObject } from './json.ts';
import type {
  InputMeasurements,
  MeasuredCall,
  MeasuredInput,
  Violation,
} from './measured-price.ts';

/** Price and limits of a merge. The measured inputs are the videos in order, then the sound track. */
export interface MergeRule {
  kind: 'merge';
  /** Number of videos. */
  videos: number;
  usdPerSecond: number;
  secondsMax: number;
  /** Maximum length of the edges of each video, in pixels. */
  edgeMax: number;
  /** Time line with a sound track; `mixes` if the sound of the videos is kept. Null without one. */
  timeLine: { mixes: boolean } | null;
}

const readSeconds = ({ durationSeconds }: InputMeasurements): number => durationSeconds ?? 0;

/** Prices a merge by its measured inputs. Returns the violated limit instead. */
export function priceMerge(
  rule: MergeRule,
  inputs: readonly MeasuredInput[],
): MeasuredCall | Violation {
  const videos = inputs.slice(0, rule.videos);
  const durationSeconds = videos.reduce((sum, video) => sum + readSeconds(video), 0);
  if (durationSeconds > rule.secondsMax) {
    const message = `the videos must last at most ${rule.secondsMax} seconds together (received ${Math.ceil(durationSeconds)})`;
    return { violates: null, message };
  }
  for (const [index, { width, height }] of videos.entries()) {
    if (Math.max(width, height) <= rule.edgeMax) continue;
    const message = `the video must have edges of at most ${rule.edgeMax} pixels (received ${width}×${height})`;
    return { violates: index, message };
  }
  const sound = inputs.at(-1);
  return {
    unitPriceUsd: rule.usdPerSecond,
    quantity: Math.max(1, Math.ceil(durationSeconds)),
    expected: { durationSeconds },
    variants: [],
    ...(rule.timeLine && sound && { input: buildTimeLine(rule.timeLine, videos, sound) }),
  };
}

/**
 * Builds the provider's time line, in milliseconds: a track with the videos, in mode `mix` a track
 * with their sound, and a track with the sound track.
 */
function buildTimeLine(
  { mixes }: NonNullable<MergeRule['timeLine']>,
  videos: readonly MeasuredInput[],
  sound: MeasuredInput,
): JsonObject {
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
    ...(mixes && audible.length > 0
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
