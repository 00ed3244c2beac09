/** Spec §4.7 (image), line by line. */
import { expect } from 'vitest';
import { imageModels } from '../../catalog/image-models.ts';
import {
  answers,
  anUrl,
  becomes,
  done,
  line,
  post,
  refuses,
  takes,
  tells,
  type Bench,
  type Check,
  type Request,
} from './bench.ts';

type Ask = (fields: object) => Request;
const generate: Ask = (fields) =>
  post('/studio/image/generate', { prompt: 'a pier at dawn', ...fields });
const withPicture =
  (path: string, field: string, fixed: object = {}): Ask =>
  (fields) =>
    post(path, ({ picture }: Bench) => ({ [field]: picture, ...fixed, ...fields }));
const edit: Ask = (fields) =>
  post('/studio/image/edit', ({ picture }: Bench) => ({
    prompt: 'paint it blue',
    imageUrls: [picture],
    ...fields,
  }));
const upscale = withPicture('/studio/image/upscale', 'imageUrl');
const cutOut = withPicture('/studio/image/remove-background', 'imageUrl');
const batch: Ask = (fields) =>
  post('/studio/image/batch', ({ picture }: Bench) => ({
    operation: 'upscale',
    imageUrls: [picture, picture],
    ...fields,
  }));

const generateIds = [
  'nano-banana',
  'nano-banana-pro',
  'seedream',
  'alpha-image',
  'alpha-image-mini',
  'alpha-image-2',
  'alpha-image-2.5-flare',
  'alpha-image-2.5-sunburst',
  'alpha-imagen',
  'alpha-imagen-ultra',
  'alpha-imagine',
];
const editIds = [
  'nano-banana',
  'seedream',
  'alpha-image-2',
  'alpha-image-2.5-flare',
  'alpha-image-2.5-sunburst',
];
const newest = ['alpha-image-2', 'alpha-image-2.5-flare', 'alpha-image-2.5-sunburst'];

/** Each value and each of these models is taken; all other models of the list refuse the field. */
function onlyOf(
  ask: Ask,
  ids: { of: readonly string[]; all: readonly string[] },
  bodies: Record<string, unknown>[],
): Check[] {
  const others = ids.all.filter((id) => !ids.of.includes(id));
  const [first = {}] = bodies;
  const pairs = Array.from({ length: Math.max(ids.of.length, bodies.length) }, (_, index) =>
    ask({ model: ids.of[index % ids.of.length], ...bodies[index % bodies.length] }),
  );
  return [
    takes(...pairs),
    ...others.flatMap((model) =>
      Object.entries(first).map(([field, value]) =>
        refuses(ask({ model, [field]: value }), field, 'UNSUPPORTED_PARAMETER'),
      ),
    ),
  ];
}

const oneOf = (ask: Ask, field: string, values: unknown[], wrong: unknown): Check[] => [
  takes(...values.map((value) => ask({ [field]: value }))),
  refuses(ask({ [field]: wrong }), field),
];

const generatedImages = {
  model: 'nano-banana',
  images: [
    {
      url: anUrl,
      contentType: expect.stringMatching(/^image\//),
      width: expect.any(Number),
      height: expect.any(Number),
    },
  ],
  metadata: { outputImages: 1, prompt: 'a pier at dawn', aspectRatio: '16:9' },
};

const pictureUrl = { url: anUrl, imageUrl: anUrl };

/** §4.7. */
export const imageLines = [
  line(
    '4.7',
    '**POST /api/v1/studio/image/generate** — body:',
    answers(generate({}), 200, done({ model: 'nano-banana' })),
  ),
  line(
    '4.7',
    '| prompt | string | yes | 3–2000 characters |',
    takes(generate({ prompt: 'xxx' }), generate({ prompt: 'x'.repeat(2000) })),
    refuses(generate({ prompt: undefined }), 'prompt'),
    refuses(generate({ prompt: 12345 }), 'prompt'),
    refuses(generate({ prompt: 'ab' }), 'prompt'),
    refuses(generate({ prompt: 'x'.repeat(2001) }), 'prompt'),
  ),
  line(
    '4.7',
    [
      '| model | string | no | One of: `nano-banana` (default), `nano-banana-pro`, `seedream`, `alpha-image`, `alpha-image-mini`, `alpha-image-2`, `alpha-image-2.5-flare`, `alpha-image-2.5-sunburst`, `alpha-imagen`, `alpha-imagen-ultra`, `alpha-imagine`',
      '("alpha" stands in for a provider name in the last seven and the `alpha-image*` ids)',
    ],
    async () => {
      // More may follow (CONTRIBUTING.md), but none of these may be missing.
      expect(imageModels.map(({ id }) => id)).toEqual(expect.arrayContaining(generateIds));
    },
    ...generateIds.map((model) => answers(generate({ model }), 200, done({ model }))),
    answers(generate({}), 200, done({ model: 'nano-banana' })),
    refuses(generate({ model: 'alpha' }), 'model', 'UNKNOWN_MODEL'),
  ),
  line(
    '4.7',
    '| numImages | number | no | 1–10, varies by model |',
    answers(generate({ numImages: 10 }), 200, done({ metadata: { outputImages: 10 } })),
    answers(generate({}), 200, done({ metadata: { outputImages: 1 } })),
    refuses(generate({ numImages: 0 }), 'numImages'),
    refuses(generate({ numImages: 11 }), 'numImages'),
    refuses(generate({ numImages: '2' }), 'numImages'),
  ),
  line(
    '4.7',
    '| aspectRatio | string | no | e.g. `16:9`, `1:1`; varies by model |',
    tells(generate({ prompt: 'a wide pier', aspectRatio: '16:9' }), 'a wide pier', {
      aspect_ratio: '16:9',
    }),
    takes(generate({ aspectRatio: '1:1' })),
    refuses(generate({ aspectRatio: '17:9' }), 'aspectRatio'),
  ),
  line(
    '4.7',
    '| outputFormat | string | no | `jpeg`, `png`, `webp` |',
    ...['jpeg', 'png', 'webp'].map((outputFormat) =>
      answers(generate({ outputFormat }), 200, {
        data: { images: [{ contentType: `image/${outputFormat}` }] },
      }),
    ),
    refuses(generate({ outputFormat: 'gif' }), 'outputFormat'),
  ),
  line(
    '4.7',
    '| resolution | string | no | `1K`, `2K`, `4K`; only `nano-banana-pro` |',
    ...onlyOf(generate, { of: ['nano-banana-pro'], all: generateIds }, [
      { resolution: '1K' },
      { resolution: '2K' },
      { resolution: '4K' },
    ]),
    refuses(generate({ model: 'nano-banana-pro', resolution: '8K' }), 'resolution'),
  ),
  line(
    '4.7',
    '| width, height | number | no | 1024–4096 pixels; `seedream` only |',
    ...onlyOf(generate, { of: ['seedream'], all: generateIds }, [
      { width: 1024, height: 4096 },
      { width: 4096, height: 1024 },
    ]),
    refuses(generate({ model: 'seedream', width: 1023 }), 'width'),
    refuses(generate({ model: 'seedream', height: 4097 }), 'height'),
  ),
  line(
    '4.7',
    '| seed | number | no | 0–2147483647 |',
    takes(...generateIds.map((model) => generate({ model, seed: 2_147_483_647 }))),
    takes(generate({ seed: 0 })),
    refuses(generate({ seed: -1 }), 'seed'),
    refuses(generate({ seed: 2_147_483_648 }), 'seed'),
  ),
  line(
    '4.7',
    '| negativePrompt | string | no | `alpha-imagen-ultra` only |',
    ...onlyOf(generate, { of: ['alpha-imagen-ultra'], all: generateIds }, [
      { negativePrompt: 'people' },
    ]),
  ),
  line(
    '4.7',
    '| quality | string | no | `auto`, `low`, `medium`, `high`; for `alpha-image`, `alpha-image-2`, `alpha-image-2.5-*` |',
    ...onlyOf(
      generate,
      { of: ['alpha-image', ...newest], all: generateIds },
      ['auto', 'low', 'medium', 'high'].map((quality) => ({ quality })),
    ),
    refuses(generate({ model: 'alpha-image', quality: 'best' }), 'quality'),
  ),
  line(
    '4.7',
    '| background | string | no | `auto`, `transparent`, `opaque`; same models |',
    ...onlyOf(
      generate,
      { of: ['alpha-image', ...newest], all: generateIds },
      ['auto', 'transparent', 'opaque'].map((background) => ({ background })),
    ),
    refuses(generate({ model: 'alpha-image', background: 'blue' }), 'background'),
  ),
  line(
    '4.7',
    '| imageSize | string or object | no | For `alpha-image-2` and `alpha-image-2.5-*`: `square_hd`, `square`, `portrait_4_3`, `portrait_16_9`, `landscape_4_3` (default), `landscape_16_9`, or `{width, height}` in multiples of 16 |',
    ...onlyOf(generate, { of: newest, all: generateIds }, [
      { imageSize: 'square_hd' },
      { imageSize: 'square' },
      { imageSize: 'portrait_4_3' },
      { imageSize: 'portrait_16_9' },
      { imageSize: 'landscape_4_3' },
      { imageSize: 'landscape_16_9' },
      { imageSize: { width: 1280, height: 720 } },
    ]),
    tells(generate({ model: 'alpha-image-2', prompt: 'a plain pier' }), 'a plain pier', {
      image_size: 'landscape_4_3',
    }),
    refuses(generate({ model: 'alpha-image-2', imageSize: 'round' }), 'imageSize'),
    refuses(
      generate({ model: 'alpha-image-2', imageSize: { width: 1281, height: 720 } }),
      'imageSize',
    ),
  ),
  line(
    '4.7',
    '| imageUrls | string | no | Listed in the machine description only |',
    withPictureIsTaken(),
    refuses(generate({ imageUrls: 'no url' }), 'imageUrls'),
  ),
  line(
    '4.7',
    '| async | boolean | no | When true (or when the model is queued) the job is settled later; may return HTTP 202 |',
    answers(generate({ async: true }), 202, {
      data: { jobId: expect.any(String) },
      credits: { used: 0 },
    }),
    becomes(generate({ async: true, aspectRatio: '16:9' }), generatedImages),
    answers(generate({ async: false }), 200),
    refuses(generate({ async: 'true' }), 'async'),
  ),
  line(
    '4.7',
    'Response `data`: `model` (string), `images` (array of `{url, contentType, width, height}`), `metadata` (`outputImages`, `prompt`, `aspectRatio`)',
    answers(generate({ aspectRatio: '16:9' }), 200, done(generatedImages)),
  ),

  line(
    '4.7',
    '**POST /api/v1/studio/image/edit** — body: `prompt` (string, required, 3–2000 chars)',
    takes(edit({ prompt: 'xxx' }), edit({ prompt: 'x'.repeat(2000) })),
    refuses(edit({ prompt: undefined }), 'prompt'),
    refuses(edit({ prompt: 'ab' }), 'prompt'),
    refuses(edit({ prompt: 'x'.repeat(2001) }), 'prompt'),
  ),
  line(
    '4.7',
    '`imageUrls` (array of URL strings, required, 1–10), `model` (string',
    takes(edit({})),
    refuses(edit({ imageUrls: undefined }), 'imageUrls'),
    refuses(edit({ imageUrls: [] }), 'imageUrls'),
    refuses(edit({ imageUrls: ['no url'] }), 'imageUrls'),
    refuses(edit({ imageUrls: 'https://example.com/a.png' }), 'imageUrls'),
  ),
  line(
    '4.7',
    ': `nano-banana` default, `seedream`, `alpha-image-2`, `alpha-image-2.5-flare`, `alpha-image-2.5-sunburst`)',
    answers(edit({}), 200, done({ model: 'nano-banana' })),
    ...editIds.map((model) => answers(edit({ model }), 200, done({ model }))),
    refuses(edit({ model: 'nano-banana-pro' }), 'model', 'UNKNOWN_MODEL'),
  ),
  line(
    '4.7',
    '`numImages` (number), `outputFormat` (`jpeg`/`png`/`webp`), `seed` (number)',
    answers(edit({ numImages: 2, outputFormat: 'webp', seed: 7 }), 200, {
      data: { images: [{ contentType: 'image/webp' }, { contentType: 'image/webp' }] },
    }),
    takes(...editIds.map((model) => edit({ model, numImages: 2, outputFormat: 'jpeg', seed: 7 }))),
    ...oneOf(edit, 'outputFormat', ['jpeg', 'png', 'webp'], 'gif'),
    refuses(edit({ seed: -1 }), 'seed'),
  ),
  line(
    '4.7',
    '`quality` (`low`/`medium`/`high`; `alpha-image-2` and `alpha-image-2.5-*`)',
    ...onlyOf(
      edit,
      { of: newest, all: editIds },
      ['low', 'medium', 'high'].map((quality) => ({ quality })),
    ),
    refuses(edit({ model: 'alpha-image-2', quality: 'auto' }), 'quality'),
  ),
  line(
    '4.7',
    '`background` (`auto`/`transparent`/`opaque`; same models)',
    ...onlyOf(
      edit,
      { of: newest, all: editIds },
      ['auto', 'transparent', 'opaque'].map((background) => ({ background })),
    ),
  ),
  line(
    '4.7',
    '`maskUrl` (string URL; inpainting mask, white regions are edited; same models)',
    takes(...newest.map((model) => withMask({ model }))),
    refuses(withMask({ model: 'nano-banana' }), 'maskUrl', 'UNSUPPORTED_PARAMETER'),
    refuses(edit({ model: 'alpha-image-2', maskUrl: 'no url' }), 'maskUrl'),
  ),

  line(
    '4.7',
    '**POST /api/v1/studio/image/upscale** — body: `imageUrl` (string, required)',
    takes(upscale({})),
    refuses(post('/studio/image/upscale', {}), 'imageUrl'),
  ),
  line(
    '4.7',
    '`scaleFactor` (number: 2 default, 4, 6)',
    answers(upscale({}), 200, done({ scaleFactor: 2 })),
    answers(upscale({ scaleFactor: 6 }), 200, done({ scaleFactor: 6 })),
    takes(upscale({ scaleFactor: 2 }), upscale({ scaleFactor: 4 })),
    refuses(upscale({ scaleFactor: 3 }), 'scaleFactor'),
  ),
  line(
    '4.7',
    '`service` (string: `service_a` default or `service_b`, standing for two providers)',
    answers(upscale({}), 200, done({ service: 'service_a' })),
    answers(upscale({ service: 'service_b' }), 200, done({ service: 'service_b' })),
    answers(upscale({ service: 'service_c' }), 400),
  ),
  line(
    '4.7',
    '`model` (service_a only: `Standard V2`, `High Fidelity V2`, `CGI`, `Low Resolution V2`)',
    answers(upscale({ model: 'CGI' }), 200, done({ model: 'CGI' })),
    takes(
      ...['Standard V2', 'High Fidelity V2', 'Low Resolution V2'].map((model) =>
        upscale({ model }),
      ),
    ),
    refuses(upscale({ model: 'Standard V3' }), 'model'),
    refuses(upscale({ service: 'service_b', model: 'CGI' }), 'model', 'UNSUPPORTED_PARAMETER'),
  ),
  line(
    '4.7',
    '`faceEnhancement` (boolean, service_a only, default true)',
    takes(upscale({ faceEnhancement: true }), upscale({ faceEnhancement: false })),
    refuses(upscale({ faceEnhancement: 'yes' }), 'faceEnhancement'),
    refuses(
      upscale({ service: 'service_b', faceEnhancement: true }),
      'faceEnhancement',
      'UNSUPPORTED_PARAMETER',
    ),
    tells(
      post('/studio/image/upscale', ({ picture }) => ({ imageUrl: picture, async: true })),
      null,
      { face_enhancement: true },
    ),
  ),
  line(
    '4.7',
    '`persistToStorage` (boolean, default false; when true the result is stored and a hosted URL returned). Returns a JSON payload with the hosted upscaled image URL',
    answers(upscale({ persistToStorage: true }), 200, {
      data: { ...pictureUrl, persisted: true, storagePath: expect.any(String) },
    }),
    answers(upscale({}), 200, { data: { ...pictureUrl, persisted: false } }),
  ),

  line(
    '4.7',
    '**POST /api/v1/studio/image/remove-background** — body: `imageUrl` (string, required)',
    takes(cutOut({})),
    refuses(post('/studio/image/remove-background', {}), 'imageUrl'),
  ),
  line(
    '4.7',
    '`model` (`General Use (Light)` default, `General Use (Heavy)`, `Portrait`)',
    answers(cutOut({}), 200, done({ model: 'General Use (Light)' })),
    answers(cutOut({ model: 'Portrait' }), 200, done({ model: 'Portrait' })),
    takes(cutOut({ model: 'General Use (Light)' }), cutOut({ model: 'General Use (Heavy)' })),
    refuses(cutOut({ model: 'Landscape' }), 'model', 'UNKNOWN_MODEL'),
  ),
  line(
    '4.7',
    '`operatingResolution` (`1024x1024` default, `2048x2048`, `2304x2304`)',
    answers(cutOut({}), 200, done({ operatingResolution: '1024x1024' })),
    answers(
      cutOut({ operatingResolution: '2304x2304' }),
      200,
      done({ operatingResolution: '2304x2304' }),
    ),
    takes(
      cutOut({ operatingResolution: '1024x1024' }),
      cutOut({ operatingResolution: '2048x2048' }),
    ),
    refuses(cutOut({ operatingResolution: '512x512' }), 'operatingResolution'),
  ),
  line(
    '4.7',
    '`refineForeground` (boolean, default true)',
    takes(cutOut({ refineForeground: false })),
    refuses(cutOut({ refineForeground: 1 }), 'refineForeground'),
    tells(
      post('/studio/image/remove-background', ({ picture }) => ({ imageUrl: `${picture}?edges` })),
      '?edges',
      { refine_foreground: true },
    ),
  ),
  line(
    '4.7',
    '`persistToStorage` (boolean, default false). Returns a JSON payload with the hosted result URL',
    answers(cutOut({ persistToStorage: true }), 200, { data: { ...pictureUrl, persisted: true } }),
    answers(cutOut({}), 200, { data: { ...pictureUrl, persisted: false } }),
  ),

  line(
    '4.7',
    '**POST /api/v1/studio/image/batch** — body: `operation` (string, required: `remove-background` or `upscale`)',
    takes(batch({ operation: 'remove-background' }), batch({ operation: 'upscale' })),
    refuses(batch({ operation: undefined }), 'operation'),
    refuses(batch({ operation: 'sharpen' }), 'operation'),
  ),
  line(
    '4.7',
    '`imageUrls` (array of URL strings, required, 1–10), `scaleFactor`',
    refuses(batch({ imageUrls: undefined }), 'imageUrls'),
    refuses(batch({ imageUrls: [] }), 'imageUrls'),
    refuses(batch({ imageUrls: ['no url'] }), 'imageUrls'),
    takes(
      post('/studio/image/batch', ({ picture }) => ({
        operation: 'remove-background',
        imageUrls: Array.from({ length: 10 }, () => picture),
      })),
    ),
  ),
  line(
    '4.7',
    '(number, upscale only, default 2)',
    takes(...[2, 4, 6].map((scaleFactor) => batch({ scaleFactor }))),
    refuses(batch({ scaleFactor: 3 }), 'scaleFactor'),
    refuses(
      batch({ operation: 'remove-background', scaleFactor: 2 }),
      'scaleFactor',
      'UNSUPPORTED_PARAMETER',
    ),
    tells(
      post('/studio/image/batch', ({ picture }) => ({
        operation: 'upscale',
        imageUrls: [picture],
        async: true,
      })),
      null,
      { upscale_factor: 2 },
    ),
  ),
  line(
    '4.7',
    '`service` (upscale only, `service_a` default or `service_b`)',
    takes(batch({ service: 'service_a' }), batch({ service: 'service_b' })),
    refuses(
      batch({ operation: 'remove-background', service: 'service_a' }),
      'service',
      'UNSUPPORTED_PARAMETER',
    ),
  ),
  line(
    '4.7',
    'The machine description instead lists a required `prompts` array of strings; which form a server must accept is not reconciled there',
    // Both are, where the strings are URLs.
    takes(
      post('/studio/image/batch', ({ picture }) => ({
        operation: 'remove-background',
        prompts: [picture],
      })),
    ),
    refuses(batch({ imageUrls: undefined, prompts: ['a pier'] }), 'prompts'),
  ),
  line(
    '4.7',
    'Response `data`: `total`, `successful`, `failed` (numbers) and `results` array of `{success: boolean, index: number, data: <result URL string>}`; plus `credits`',
    answers(
      batch({}),
      200,
      done({
        total: 2,
        successful: 2,
        failed: 0,
        results: [
          { success: true, index: 0, data: anUrl },
          { success: true, index: 1, data: anUrl },
        ],
      }),
    ),
  ),
];

function withPictureIsTaken(): Check {
  return takes(
    post('/studio/image/generate', ({ picture }) => ({ prompt: 'like it', imageUrls: picture })),
    post('/studio/image/generate', ({ picture }) => ({ prompt: 'like it', imageUrls: [picture] })),
  );
}

function withMask(fields: object): Request {
  return post('/studio/image/edit', ({ picture }) => ({
    prompt: 'paint it blue',
    imageUrls: [picture],
    maskUrl: picture,
    ...fields,
  }));
}
