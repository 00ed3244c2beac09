/** /studio/video/merge, whose videos are drawn, joined and measured by ffmpeg. */
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { download, drawDisc, readFilm, makeFilm, makeSpeech } from '../harness/media.ts';
import { createVideoCalls } from './video-jobs.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });
const { video, make } = createVideoCalls(gateway);

describe('POST /studio/video/merge', () => {
  const put = async (path: string, film: Partial<Parameters<typeof makeFilm>[0]>) => {
    const defaults = { width: 320, height: 180, durationSeconds: 2, hasAudio: true };
    return gateway.media.put(path, await makeFilm({ ...defaults, ...film }));
  };
  let first: string;
  let second: string;
  let silent: string;
  let voice: string;
  let picture: string;
  beforeAll(async () => {
    first = await put('/first.mp4', { prompt: 'first' });
    second = await put('/second.mp4', { prompt: 'second', durationSeconds: 3 });
    silent = await put('/silent.mp4', { hasAudio: false });
    voice = gateway.media.put('/voice.mp3', await makeSpeech(4));
    picture = gateway.media.put('/picture.png', await drawDisc(64, 64));
  });

  it.each([
    ['videos in order', () => ({ videoUrls: [second, first, second] }), 8, true],
    ['silent videos', () => ({ videoUrls: [silent, silent] }), 4, false],
    ['a sound track', () => ({ videoUrls: [silent, first], audioUrl: voice }), 4, true],
    ['one video and a voice', () => ({ videoUrls: [silent], audioUrl: voice }), 2, true],
    ['a mix', () => ({ videoUrls: [first, silent], audioUrl: voice, audioMode: 'mix' }), 4, true],
    ['the sound of a film', () => ({ videoUrls: [silent, silent], audioUrl: first }), 4, true],
    [
      'another size',
      async () => ({ videoUrls: [first, await put('/s.mp4', { width: 160 })] }),
      4,
      true,
    ],
  ])('joins %s at the price of the estimate', async (_name, makeBody, seconds, hasAudio) => {
    const body = await makeBody();
    const estimate = await gateway.call<{ data: { credits: number } }>(
      '/api/v1/studio/video/merge/estimate',
      { body },
    );
    expect(estimate.body.data.credits).toBeCloseTo(seconds * 0.02, 6);
    const job = await make('merge', body);
    expect(job).toMatchObject({
      status: 'completed',
      billing: { state: 'charged', charged: estimate.body.data.credits },
      result: { format: 'mp4', model: 'video-merge', hasAudio, metadata: body },
    });
    const facts = await readFilm(await download(job.result.url));
    expect(facts.codec).toBe('avc');
    expect(facts.durationSeconds).toBeCloseTo(seconds, 0);
  });

  it('takes uploads and results of jobs, also as sound', async () => {
    const { result } = await make('merge', { videoUrls: [first, second] });
    const again = { videoUrls: [result.url, result.url], audioUrl: result.url };
    expect(await make('merge', again)).toMatchObject({ result: { durationSeconds: 10 } });
  });

  it.each<[string, () => object, string]>([
    ['a sound as a video', () => ({ videoUrls: [first, voice] }), 'videoUrls.1'],
    ['a picture as a video', () => ({ videoUrls: [picture, first] }), 'videoUrls.0'],
    ['a picture as a sound', () => ({ videoUrls: [first], audioUrl: picture }), 'audioUrl'],
    ['a silent film as a sound', () => ({ videoUrls: [first], audioUrl: silent }), 'audioUrl'],
    [
      'a file that is not there',
      () => ({ videoUrls: [first, `${gateway.media.origin}/no.mp4`] }),
      'videoUrls.1',
    ],
  ])('rejects %s before any credits are reserved', async (_name, makeBody, path) => {
    const count = 'SELECT count(*) FROM reservation';
    const before = await gateway.database.query(count);
    for (const kind of ['merge', 'merge/estimate'])
      expect(await video(kind, makeBody())).toMatchObject({
        status: 400,
        body: { error: 'INVALID_INPUT_URL', details: [{ path }] },
      });
    expect(await gateway.database.query(count)).toEqual(before);
  });
});
