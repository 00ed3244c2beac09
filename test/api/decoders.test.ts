/**
 * Audio and video that the gateway delivers: ffmpeg decodes each file completely without an error,
 * and its duration is as promised.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { decode, findFfmpeg } from '../harness/ffmpeg.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });
let ffmpeg: string;
beforeAll(async () => {
  ffmpeg = await findFfmpeg();
});

interface Media {
  url: string;
  durationSeconds?: number;
  duration?: number;
}

const tongue =
  'The light turns, and the harbour wakes up. Nobody pays for a boat that never sailed.';
const table: [path: string, body: object, seconds: (media: Media) => number][] = [
  // The sandbox speaks 14 characters a second.
  ['voiceover/generate', { title: 'A', text: tongue }, () => tongue.length / 14],
  [
    'dialogue/generate',
    {
      title: 'A',
      inputs: [
        { voiceId: 'aria', text: 'word '.repeat(390) },
        { voiceId: 'roger', text: tongue },
      ],
    },
    () => (1950 + tongue.length) / 14,
  ],
  [
    'music/generate',
    { prompt: 'rain', durationSeconds: 12 },
    ({ duration }) => (duration ?? 0) / 1000,
  ],
  ['sfx/generate', { prompt: 'a foghorn', durationSeconds: 3 }, () => 3],
  ['video/generate', { prompt: 'waves', model: 'veo', durationSeconds: 4 }, () => 4],
];

describe('every recording', () => {
  it.each(table)('from %s %j decodes without errors', async (path, body, seconds) => {
    const answer = await gateway.call<{ data: Media & { jobId: string } }>(
      `/api/v1/studio/${path}`,
      { body },
    );
    const media =
      answer.status === 202
        ? ((await gateway.untilDone(answer.body.data.jobId)).body.data.result as unknown as Media)
        : answer.body.data;
    const decoded = await decode(ffmpeg, media.url);
    expect(decoded.complaints).toBe('');
    expect(Math.abs(decoded.durationSeconds - seconds(media))).toBeLessThan(0.6);
  });
});
