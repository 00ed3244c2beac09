/**
 * Audio and video that the gateway delivers: ffmpeg decodes each file completely without an error,
 * and its duration is as promised.
 */
import { describe, expect, it } from 'vitest';
import { decode, findFfmpeg } from '../harness/ffmpeg.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });
const ffmpeg = await findFfmpeg();

const sentence =
  'The light turns, and the harbour wakes up. Nobody pays for a boat that never sailed.';
const table: [path: string, body: object, seconds: number][] = [
  // The sandbox speaks 14 characters a second.
  ['voiceover/generate', { title: 'A', text: sentence }, sentence.length / 14],
  [
    'dialogue/generate',
    {
      title: 'A',
      inputs: [
        { voiceId: 'aria', text: 'word '.repeat(390) },
        { voiceId: 'roger', text: sentence },
      ],
    },
    (1950 + sentence.length) / 14,
  ],
  ['music/generate', { prompt: 'rain', durationSeconds: 12 }, 12],
  ['sfx/generate', { prompt: 'a foghorn', durationSeconds: 3 }, 3],
  ['video/generate', { prompt: 'waves', model: 'veo', durationSeconds: 4 }, 4],
];

describe('every recording', () => {
  it.each(table)('from %s %j decodes without errors', async (path, body, seconds) => {
    const accepted = await gateway.call(`/api/v1/studio/${path}`, {
      body: { ...body, async: true },
    });
    const { result } = (await gateway.untilDone(accepted.body.data.jobId)).body.data;
    const decoded = await decode(ffmpeg, result.url);
    expect(decoded.complaints).toBe('');
    expect(Math.abs(decoded.durationSeconds - seconds)).toBeLessThan(0.6);
  });
});
