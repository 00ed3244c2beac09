import { describe, expect, it } from 'vitest';
import { findModel, throwIfUnsupported } from '../../studio/models/model-parameters.ts';
import { videoModels } from '../../studio/models/video-models.ts';
import { videoGenerate } from '../../studio/capabilities/video-generate.ts';
import { videoRemoveBackground } from '../../studio/capabilities/video-remove-background.ts';
import { videoMerge } from '../../studio/capabilities/video-merge.ts';
import { videoUpscale } from '../../studio/capabilities/video-upscale.ts';
import { planRequest, catchRejection, isAccepted, priceByInput } from '../harness/capability.ts';
import { catchGatewayError } from '../harness/failures.ts';

const prompt = 'waves at night';
const imageUrl = 'https://example.com/a.png';
const urls = (count: number) =>
  Array.from({ length: count }, (_, index) => `https://example.com/${index}.png`);
const route = (body: object) => planRequest(videoGenerate, { prompt, ...body }).calls[0]?.routes[0];

describe('POST /studio/video/generate: limits of spec §4.10', () => {
  it.each([
    // [fields, taken by veo, kling-3.0-pro, seedance-2.5, seedance-2.0]
    [{ durationSeconds: 2 }, [false, false, false, false]],
    [{ durationSeconds: 3 }, [false, true, false, false]],
    [{ durationSeconds: 4 }, [true, true, true, true]],
    [{ durationSeconds: 5 }, [false, true, true, true]],
    [{ durationSeconds: 8 }, [true, true, true, true]],
    [{ durationSeconds: 9 }, [false, true, true, true]],
    [{ durationSeconds: 15 }, [false, true, true, true]],
    [{ durationSeconds: 16 }, [false, false, true, false]],
    [{ durationSeconds: 30 }, [false, false, true, false]],
    [{ durationSeconds: 31 }, [false, false, false, false]],
    [{ durationSeconds: 4.5 }, [false, false, false, false]],
    [{ aspectRatio: '16:9' }, [true, true, true, true]],
    [{ aspectRatio: '1:1' }, [false, true, true, true]],
    [{ aspectRatio: '21:9' }, [false, false, true, true]],
    [{ aspectRatio: '5:4' }, [false, false, false, false]],
    [{ resolution: '480p' }, [false, false, true, true]],
    [{ resolution: '720p' }, [true, false, true, true]],
    [{ resolution: '1080p' }, [true, false, false, false]],
    [{ generateAudio: false }, [true, true, true, true]],
    [{ seed: 0 }, [true, false, false, true]],
    [{ seed: 2_147_483_648 }, [false, false, false, false]],
    [{ negativePrompt: 'rain' }, [true, true, false, false]],
    [{ negativePrompt: '' }, [false, false, false, false]],
    [{ negativePrompt: ' \n' }, [false, false, false, false]],
    [{ imageUrl }, [true, true, true, true]],
    [{ imageUrl: 'a.png' }, [false, false, false, false]],
    [{ imageUrl, endImageUrl: imageUrl }, [true, true, true, true]],
    [{ endImageUrl: imageUrl }, [false, false, false, false]],
    [{ imageUrl, endImageUrl: 'b.png' }, [false, false, false, false]],
    [{ referenceUrls: urls(1), endImageUrl: imageUrl }, [false, false, false, false]],
    [{ referenceUrls: urls(1) }, [false, false, true, true]],
    [{ referenceUrls: urls(9) }, [false, false, true, true]],
    [{ referenceUrls: urls(10) }, [false, false, true, false]],
    [{ referenceUrls: urls(30) }, [false, false, true, false]],
    [{ referenceUrls: urls(31) }, [false, false, false, false]],
    [{ prompt: '' }, [false, false, false, false]],
    [{ prompt: '   ' }, [false, false, false, false]],
    [{ prompt: 'a'.repeat(2500) }, [true, true, true, true]],
    [{ prompt: 'a'.repeat(2501) }, [true, false, true, true]],
    [{ prompt: 'a'.repeat(5001) }, [false, false, false, false]],
    [{ surprise: 1 }, [false, false, false, false]],
    [{ async: false }, [true, true, true, true]],
  ])('%j → %j', (fields, expected) => {
    const taken = videoModels.map(({ id }) =>
      isAccepted(videoGenerate, { prompt, model: id, ...fields }),
    );
    expect(taken).toEqual(expected);
  });

  it('names a field of another model, and the existing models', () => {
    expect(
      catchRejection(videoGenerate, { prompt, model: 'kling-3.0-pro', seed: 3 }),
    ).toMatchObject({
      code: 'UNSUPPORTED_PARAMETER',
      details: [{ path: 'seed' }],
    });
    const models = 'veo, kling-3.0-pro, seedance-2.5, seedance-2.0';
    expect(catchRejection(videoGenerate, { prompt, model: 'sora' })).toMatchObject({
      code: 'UNKNOWN_MODEL',
      details: [{ message: `must be one of ${models} (received "sora")` }],
    });
  });

  it('names the last frame if a model takes only a first one', () => {
    const { endImageUrl: _, ...parameters } = findModel(videoModels, 'veo').parameters;
    const model = { id: 'first-only', parameters, requireRuleFor: ['imageUrl'] };
    const body = { prompt, model: 'first-only', imageUrl, endImageUrl: imageUrl };
    expect(catchGatewayError(() => throwIfUnsupported(model, body))).toMatchObject({
      code: 'UNSUPPORTED_PARAMETER',
      details: [{ path: 'endImageUrl' }],
    });
  });

  it('rejects a first image together with references, and an aspect ratio that an image decides', () => {
    const both = { prompt, model: 'seedance-2.5', imageUrl, referenceUrls: urls(2) };
    expect(catchRejection(videoGenerate, both).code).toBe('CONFLICTING_FIELDS');
    const last = { prompt, model: 'seedance-2.5', endImageUrl: imageUrl };
    expect(catchRejection(videoGenerate, last)).toMatchObject({
      code: 'INVALID_REQUEST',
      details: [{ path: 'imageUrl', message: 'is required with endImageUrl' }],
    });
    const shaped = { prompt, model: 'kling-3.0-pro', imageUrl, aspectRatio: '1:1' };
    const paths = [{ path: 'imageUrl' }, { path: 'aspectRatio' }];
    expect(catchRejection(videoGenerate, shaped).details).toMatchObject(paths);
  });

  it('sends each provider model its own fields: durations as text, images by field name', () => {
    const defaults = { resolution: '720p', generate_audio: true };
    expect(route({ durationSeconds: 6 })).toEqual({
      provider: 'fal',
      providerEndpoint: 'fal-ai/veo3.1',
      input: { prompt, duration: '6s', ...defaults },
    });
    expect(route({ model: 'kling-3.0-pro', imageUrl })).toEqual({
      provider: 'fal',
      providerEndpoint: 'fal-ai/kling-video/v3/pro/image-to-video',
      input: { prompt, duration: '5', generate_audio: true, start_image_url: imageUrl },
    });
    const endImageUrl = 'https://example.com/z.png';
    const frames: [string, string, object][] = [
      [
        'veo',
        'fal-ai/veo3.1/first-last-frame-to-video',
        { first_frame_url: imageUrl, last_frame_url: endImageUrl },
      ],
      [
        'kling-3.0-pro',
        'fal-ai/kling-video/v3/pro/image-to-video',
        { start_image_url: imageUrl, end_image_url: endImageUrl },
      ],
      ...['2.5', '2.0'].map((version): [string, string, object] => [
        `seedance-${version}`,
        `bytedance/seedance-${version}/image-to-video`,
        { image_url: imageUrl, end_image_url: endImageUrl },
      ]),
    ];
    for (const [model, providerEndpoint, pictures] of frames) {
      const planned = planRequest(videoGenerate, { prompt, model, imageUrl, endImageUrl });
      expect(planned.inputs?.map(({ field }) => field)).toEqual(['imageUrl', 'endImageUrl']);
      const [call] = planned.calls;
      expect(call?.routes[0]).toMatchObject({ providerEndpoint, input: pictures });
      const names = Object.keys(call?.routes[0]?.input ?? {}).filter((name) =>
        name.endsWith('_url'),
      );
      expect(names).toEqual(Object.keys(pictures));
      const firstOnly = planRequest(videoGenerate, { prompt, model, imageUrl }).calls[0];
      expect(call?.unitPriceUsd).toBe(firstOnly?.unitPriceUsd);
    }
    expect(route({ model: 'seedance-2.0', referenceUrls: urls(2), seed: 7 })).toEqual({
      provider: 'fal',
      providerEndpoint: 'bytedance/seedance-2.0/reference-to-video',
      input: { prompt, duration: '5', ...defaults, image_urls: urls(2), seed: 7 },
    });
  });

  it('has cheaper prices for videos of lower quality that may be delivered', () => {
    const variants = (body: object) =>
      planRequest(videoGenerate, { prompt, ...body }).calls[0]?.variants;
    expect(variants({})).toEqual([{ hasAudio: false, unitPriceUsd: 0.2 }]);
    expect(variants({ generateAudio: false })).toEqual([]);
    expect(variants({ model: 'seedance-2.5' })).toEqual([
      { pixelsBelow: 450_000, unitPriceUsd: 0.2205 },
    ]);
  });
});

describe.each([videoUpscale, videoRemoveBackground])('POST $path', (capability) => {
  const videoUrl = 'https://example.com/a.mp4';
  it.each([
    [{ videoUrl }, true],
    [{ videoUrl, async: true }, true],
    [{}, false],
    [{ videoUrl: 'a.mp4' }, false],
    [{ videoUrl, model: 'x' }, false],
  ])('%j → %s', (body, taken) => {
    expect(isAccepted(capability, body)).toBe(taken);
  });

  it('is priced by started seconds, within its limits', () => {
    const price = planRequest(capability, { videoUrl }).calls[0]?.unitPriceUsd;
    if (typeof price !== 'object') throw new Error('the price depends on the input');
    const usd = (durationSeconds: number, width = 640, height = 360) =>
      priceByInput(price, { width, height, durationSeconds }).unitPriceUsd;
    const seconds = (durationSeconds: number) =>
      priceByInput(price, { width: 640, height: 360, durationSeconds }).quantity;
    expect(usd(3.2)).toBe(usd(1));
    expect([seconds(0.2), seconds(3.2), seconds(120)]).toEqual([1, 4, 120]);
    expect(() => usd(120.1)).toThrow(/120/);
    expect(() => usd(1, 4098, 2)).toThrow(/pixels/);
    expect(price.inputs.map(({ field }) => field)).toEqual(['videoUrl']);
  });
});

describe('POST /studio/video/merge', () => {
  const audioUrl = 'https://example.com/voice.mp3';
  it.each<[object, string | null]>([
    [{ videoUrls: urls(2) }, null],
    [{ videoUrls: urls(10) }, null],
    [{ videoUrls: urls(1), audioUrl }, null],
    [{ videoUrls: urls(1), audioUrl, audioMode: 'mix' }, null],
    [{ videoUrls: urls(2), audioUrl, audioMode: 'replace', async: true }, null],
    [{}, 'videoUrls'],
    [{ videoUrls: [] }, 'videoUrls'],
    [{ videoUrls: urls(11) }, 'videoUrls'],
    [{ videoUrls: urls(1) }, 'videoUrls'],
    [{ videoUrls: urls(2)[0] }, 'videoUrls'],
    [{ videoUrls: ['a.mp4', ...urls(1)] }, 'videoUrls.0'],
    [{ videoUrls: urls(2), audioUrl: 'a.mp3' }, 'audioUrl'],
    [{ videoUrls: urls(2), audioMode: 'mix' }, 'audioUrl'],
    [{ videoUrls: urls(1), audioMode: 'replace' }, 'audioUrl'],
    [{ videoUrls: urls(2), audioUrl, audioMode: 'duck' }, 'audioMode'],
    [{ videoUrls: urls(2), surprise: 1 }, 'surprise'],
  ])('%j: rejects %s', (body, path) => {
    if (path === null) expect(isAccepted(videoMerge, body)).toBe(true);
    else expect(catchRejection(videoMerge, body).details).toMatchObject([{ path }]);
  });

  const plan = (body: object) => {
    const [call] = planRequest(videoMerge, body).calls;
    const price = call?.unitPriceUsd;
    if (!call || typeof price !== 'object') throw new Error('the price depends on the inputs');
    return { planned: call.routes[0], price };
  };
  const film = (durationSeconds: number, hasAudio = true) => ({
    url: `storage:film-${durationSeconds}`,
    width: 640,
    height: 360,
    durationSeconds,
    hasAudio,
  });

  it('is priced by the started seconds of all videos, within its limits', () => {
    const { price, planned } = plan({ videoUrls: urls(3) });
    expect(planned).toEqual({
      provider: 'fal',
      providerEndpoint: 'fal-ai/ffmpeg-api/merge-videos',
      input: { video_urls: urls(3) },
    });
    expect(priceByInput(price, film(1.4), film(2.4), film(0.4))).toMatchObject({
      quantity: 5,
      expected: { durationSeconds: expect.closeTo(4.2) },
    });
    const tenMinutes = [film(200), film(200), film(200)];
    expect(priceByInput(price, ...tenMinutes).unitPriceUsd).toBe(0.0002);
    expect(() => priceByInput(price, film(200), film(200), film(200.5))).toThrow(/600 .*601/);
    const wide = { ...film(1), width: 4097 };
    expect(catchGatewayError(() => priceByInput(price, film(1), wide, film(1)))).toMatchObject({
      code: 'INVALID_REQUEST',
      details: [{ path: 'videoUrls.1', message: expect.stringContaining('4097×360') }],
    });
  });

  it.each([
    ['replace', 9, []],
    ['mix', 2.5, [{ id: 'sound-of-videos', keyframes: [{ timestamp: 0, duration: 1500 }] }]],
  ])(
    'in mode %s places a sound of %d s on the time line of the videos',
    (audioMode, seconds, own) => {
      const { price, planned } = plan({ videoUrls: urls(2), audioUrl, audioMode });
      expect(planned?.providerEndpoint).toBe('fal-ai/ffmpeg-api/compose');
      const sound = { ...film(seconds), url: 'storage:sound' };
      expect(priceByInput(price, film(1.5), film(3, false), sound).input).toMatchObject({
        tracks: [
          {
            type: 'video',
            keyframes: [
              { url: 'storage:film-1.5', timestamp: 0, duration: 1500 },
              { url: 'storage:film-3', timestamp: 1500, duration: 3000 },
            ],
          },
          ...own,
          {
            type: 'audio',
            keyframes: [
              { url: 'storage:sound', timestamp: 0, duration: Math.min(4500, seconds * 1000) },
            ],
          },
        ],
      });
    },
  );
});
