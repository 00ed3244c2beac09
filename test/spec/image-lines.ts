/** Spec §4.7 (image), line by line. */
import { expect } from 'vitest';
import { imageModels } from '../../studio/models/image-models.ts';
import {
  answers,
  anUrl,
  completesWith,
  done,
  field,
  defineLines,
  plans,
  post,
  rejects,
  takes,
  sends,
  type Ask,
  type Bench,
  type Check,
} from './bench.ts';

const text = (length: number): string => 'x'.repeat(length);
/** Returns requests to this endpoint with fields for a picture. */
const withPicture =
  (path: string, makeFields: (picture: string) => object): Ask =>
  (fields) =>
    post(`/studio/image/${path}`, ({ picture }: Bench) => ({ ...makeFields(picture), ...fields }));
/** Returns a request to this endpoint with this many pictures. */
const withPictures = (path: string, fixed: object) => (count: number) =>
  withPicture(path, (picture) => ({ imageUrls: Array(count).fill(picture) }))(fixed);

const generate: Ask = (fields) =>
  post('/studio/image/generate', { prompt: 'a pier at dawn', ...fields });
const edit = withPicture('edit', (picture) => ({ prompt: 'paint it', imageUrls: [picture] }));
const masked = withPicture('edit', (picture) => {
  return { prompt: 'paint it', imageUrls: [picture], maskUrl: picture };
});
const upscale = withPicture('upscale', (imageUrl) => ({ imageUrl }));
const cutOut = withPicture('remove-background', (imageUrl) => ({ imageUrl }));
const batch = withPicture('batch', (picture) => {
  return { operation: 'upscale', imageUrls: [picture, picture] };
});

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
const newest = ['alpha-image-2', 'alpha-image-2.5-flare', 'alpha-image-2.5-sunburst'];
const editIds = ['nano-banana', 'seedream', ...newest];

/** Checks that these models accept a field with each of the values, and that all other models reject it. */
const allowOnly =
  (ask: Ask, all: readonly string[]) =>
  (models: readonly string[], name: string, values: unknown[]): Check[] => [
    ...models.flatMap((model) => field((fields) => ask({ model, ...fields }), name, values)),
    ...all
      .filter((model) => !models.includes(model))
      .map((model) => rejects(ask({ model, [name]: values[0] }), name, 'UNSUPPORTED_PARAMETER')),
  ];
const generateOnlyWith = allowOnly(generate, generateIds);
const editOnlyWith = allowOnly(edit, editIds);
/** An image of each of these models is made. */
export const modelsAreGenerated = (...models: string[]): Check[] =>
  models.map((model) => answers(generate({ model }), 200, done({ model })));
const notOfServiceB = (name: string, value: unknown): Check =>
  rejects(upscale({ service: 'service_b', [name]: value }), name, 'UNSUPPORTED_PARAMETER');
const onlyOfUpscale = (name: string, value: unknown): Check =>
  rejects(batch({ operation: 'remove-background', [name]: value }), name, 'UNSUPPORTED_PARAMETER');

const promptIsLimited = (ask: Ask): Check[] =>
  field(
    ask,
    'prompt',
    [text(3), text(2000), '🌊'.repeat(2000)],
    [undefined, 12345, text(2), '🌊🌊', text(2001)],
  );
const picturesAreLimited = (ask: (count: number) => ReturnType<Ask>): Check[] => [
  takes(ask(1)),
  plans(ask(10)),
  rejects(ask(0), 'imageUrls'),
  rejects(ask(11), 'imageUrls'),
];
const seed = field(generate, 'seed', [2_147_483_647, 0], [-1, 2_147_483_648]);
const width =
  (edge: number): Ask =>
  (fields) =>
    generate({ model: 'seedream', width: edge, ...fields });
const dimensions = [
  ...generateOnlyWith(['seedream'], 'width', [1024, 4096]),
  ...generateOnlyWith(['seedream'], 'height', [1024, 4096]),
  ...field(width(4096), 'height', [1024], [1023, 4097]),
  ...field(width(1024), 'height', [4096]),
  ...[1023, 4097].map((edge) => rejects(width(edge)({ height: 2048 }), 'width')),
];
const imagesAreLimited = (model: string, most: number): Check[] =>
  field((fields) => generate({ model, ...fields }), 'numImages', [1, most], [0, most + 1, '2']);
const customSize: Ask = (imageSize) => generate({ model: 'alpha-image-2', imageSize });

/** The lines of §8 about images. */
export const imageLimits = {
  '| Image prompt / edit prompt | 3–2000 characters | Image generate, edit |': [
    ...promptIsLimited(generate),
    ...promptIsLimited(edit),
  ],
  '| numImages | 1–10 (varies by model) | Image generate |': [
    ...imagesAreLimited('nano-banana', 10),
    ...imagesAreLimited('alpha-imagen', 4),
  ],
  '| imageUrls | 1–10 items | Image edit, image batch |': [
    ...picturesAreLimited(withPictures('edit', { prompt: 'paint it' })),
    ...picturesAreLimited(withPictures('batch', { operation: 'remove-background' })),
  ],
  '| Dimensions | 1024–4096 px (`seedream`); custom imageSize multiples of 16 | Image generate |': [
    ...dimensions,
    plans(customSize({ width: 1008, height: 1040 })),
    rejects(customSize({ width: 1010, height: 1040 }), 'imageSize'),
  ],
  '| seed | 0–2147483647 | Image generate |': seed,
};

const contentType: unknown = expect.stringMatching(/^image\//);
const generatedImages = {
  model: 'nano-banana',
  images: [{ url: anUrl, contentType, width: expect.any(Number), height: expect.any(Number) }],
  metadata: { outputImages: 1, prompt: 'a pier at dawn', aspectRatio: '16:9' },
};
const pictureUrl = { url: anUrl, imageUrl: anUrl };

const generateLines = defineLines('4.7', {
  '**POST /api/v1/studio/image/generate** — body:': answers(
    generate({}),
    200,
    done({ model: 'nano-banana' }),
  ),
  '| prompt | string | yes | 3–2000 characters |': promptIsLimited(generate),
  '| model | string | no | One of: `nano-banana` (default), `nano-banana-pro`, `seedream`, `alpha-image`, `alpha-image-mini`, `alpha-image-2`, `alpha-image-2.5-flare`, `alpha-image-2.5-sunburst`, `alpha-imagen`, `alpha-imagen-ultra`, `alpha-imagine` … ("alpha" stands in for a provider name in the last seven and the `alpha-image*` ids)':
    [
      async () => {
        // The catalog may have more models.
        expect(imageModels.map(({ id }) => id)).toEqual(expect.arrayContaining(generateIds));
      },
      ...modelsAreGenerated(...generateIds),
      answers(generate({}), 200, done({ model: 'nano-banana' })),
      rejects(generate({ model: 'alpha' }), 'model', 'UNKNOWN_MODEL'),
    ],
  '| numImages | number | no | 1–10, varies by model |': [
    answers(generate({ numImages: 2 }), 200, done({ metadata: { outputImages: 2 } })),
    answers(generate({}), 200, done({ metadata: { outputImages: 1 } })),
    ...imagesAreLimited('nano-banana', 10),
  ],
  '| aspectRatio | string | no | e.g. `16:9`, `1:1`; varies by model |': [
    sends(generate({ prompt: 'a wide pier', aspectRatio: '16:9' }), 'a wide pier', {
      aspect_ratio: '16:9',
    }),
    ...field(generate, 'aspectRatio', ['1:1'], ['17:9']),
  ],
  '| outputFormat | string | no | `jpeg`, `png`, `webp` |': [
    answers(generate({ outputFormat: 'webp' }), 200, {
      data: { images: [{ contentType: 'image/webp' }] },
    }),
    ...field(generate, 'outputFormat', ['jpeg', 'png'], ['gif']),
  ],
  '| resolution | string | no | `1K`, `2K`, `4K`; only `nano-banana-pro` |': [
    ...generateOnlyWith(['nano-banana-pro'], 'resolution', ['1K', '2K', '4K']),
    rejects(generate({ model: 'nano-banana-pro', resolution: '8K' }), 'resolution'),
  ],
  '| width, height | number | no | 1024–4096 pixels; `seedream` only |': dimensions,
  '| seed | number | no | 0–2147483647 |': [
    ...seed,
    plans(...generateIds.map((model) => generate({ model, seed: 5 }))),
  ],
  '| negativePrompt | string | no | `alpha-imagen-ultra` only |': generateOnlyWith(
    ['alpha-imagen-ultra'],
    'negativePrompt',
    ['people'],
  ),
  '| quality | string | no | `auto`, `low`, `medium`, `high`; for `alpha-image`, `alpha-image-2`, `alpha-image-2.5-*` |':
    [
      ...generateOnlyWith(['alpha-image', ...newest], 'quality', ['auto', 'low', 'medium', 'high']),
      rejects(generate({ model: 'alpha-image', quality: 'best' }), 'quality'),
    ],
  '| background | string | no | `auto`, `transparent`, `opaque`; same models |': [
    ...generateOnlyWith(['alpha-image', ...newest], 'background', [
      'auto',
      'transparent',
      'opaque',
    ]),
    rejects(generate({ model: 'alpha-image', background: 'blue' }), 'background'),
  ],
  '| imageSize | string or object | no | For `alpha-image-2` and `alpha-image-2.5-*`: `square_hd`, `square`, `portrait_4_3`, `portrait_16_9`, `landscape_4_3` (default), `landscape_16_9`, or `{width, height}` in multiples of 16 |':
    [
      ...generateOnlyWith(newest, 'imageSize', [
        'square_hd',
        'square',
        'portrait_4_3',
        'portrait_16_9',
        'landscape_4_3',
        'landscape_16_9',
        { width: 1280, height: 720 },
      ]),
      sends(generate({ model: 'alpha-image-2', prompt: 'a plain pier' }), 'a plain pier', {
        image_size: 'landscape_4_3',
      }),
      rejects(generate({ model: 'alpha-image-2', imageSize: 'round' }), 'imageSize'),
      rejects(customSize({ width: 1281, height: 720 }), 'imageSize'),
    ],
  '| imageUrls | string | no | Listed in the machine description only |': [
    takes(withPicture('generate', (imageUrls) => ({ imageUrls }))({ prompt: 'like it' })),
    plans(withPictures('generate', { prompt: 'like it' })(1)),
    rejects(generate({ imageUrls: 'no url' }), 'imageUrls'),
  ],
  '| async | boolean | no | When true (or when the model is queued) the job is settled later; may return HTTP 202 |':
    [
      answers(generate({ async: true }), 202, {
        data: { jobId: expect.any(String) },
        credits: { used: 0 },
      }),
      completesWith(generate({ async: true, aspectRatio: '16:9' }), generatedImages),
      answers(generate({ async: false }), 200),
      rejects(generate({ async: 'true' }), 'async'),
    ],
  'Response `data`: `model` (string), `images` (array of `{url, contentType, width, height}`), `metadata` (`outputImages`, `prompt`, `aspectRatio`)':
    answers(generate({ aspectRatio: '16:9' }), 200, done(generatedImages)),
});

const editLines = defineLines('4.7', {
  '**POST /api/v1/studio/image/edit** — body: `prompt` (string, required, 3–2000 chars)':
    promptIsLimited(edit),
  '`imageUrls` (array of URL strings, required, 1–10), `model` (string': [
    takes(edit({})),
    ...field(edit, 'imageUrls', [], [undefined, [], ['no url'], 'https://example.com/a.png']),
  ],
  ': `nano-banana` default, `seedream`, `alpha-image-2`, `alpha-image-2.5-flare`, `alpha-image-2.5-sunburst`)':
    [
      answers(edit({}), 200, done({ model: 'nano-banana' })),
      answers(edit({ model: 'alpha-image-2' }), 200, done({ model: 'alpha-image-2' })),
      plans(...editIds.map((model) => edit({ model }))),
      ...generateIds
        .filter((model) => !editIds.includes(model))
        .map((model) => rejects(edit({ model }), 'model', 'UNKNOWN_MODEL')),
    ],
  '`numImages` (number), `outputFormat` (`jpeg`/`png`/`webp`), `seed` (number)': [
    answers(edit({ numImages: 2, outputFormat: 'webp', seed: 7 }), 200, {
      data: { images: [{ contentType: 'image/webp' }, { contentType: 'image/webp' }] },
    }),
    plans(...editIds.map((model) => edit({ model, numImages: 2, outputFormat: 'jpeg', seed: 7 }))),
    ...field(edit, 'outputFormat', ['png'], ['gif']),
    rejects(edit({ seed: -1 }), 'seed'),
  ],
  '`quality` (`low`/`medium`/`high`; `alpha-image-2` and `alpha-image-2.5-*`)': [
    ...editOnlyWith(newest, 'quality', ['low', 'medium', 'high']),
    rejects(edit({ model: 'alpha-image-2', quality: 'auto' }), 'quality'),
  ],
  '`background` (`auto`/`transparent`/`opaque`; same models)': editOnlyWith(newest, 'background', [
    'auto',
    'transparent',
    'opaque',
  ]),
  '`maskUrl` (string URL; inpainting mask, white regions are edited; same models)': [
    takes(masked({ model: 'alpha-image-2' })),
    plans(...newest.map((model) => masked({ model }))),
    ...['nano-banana', 'seedream'].map((model) =>
      rejects(masked({ model }), 'maskUrl', 'UNSUPPORTED_PARAMETER'),
    ),
    rejects(edit({ model: 'alpha-image-2', maskUrl: 'no url' }), 'maskUrl'),
  ],
});

const largest = { operatingResolution: '2304x2304' };
const toolLines = defineLines('4.7', {
  '**POST /api/v1/studio/image/upscale** — body: `imageUrl` (string, required)': [
    takes(upscale({})),
    rejects(post('/studio/image/upscale', {}), 'imageUrl'),
  ],
  '`scaleFactor` (number: 2 default, 4, 6)': [
    answers(upscale({}), 200, done({ scaleFactor: 2 })),
    answers(upscale({ scaleFactor: 6 }), 200, done({ scaleFactor: 6 })),
    ...field(upscale, 'scaleFactor', [2, 4], [3]),
  ],
  '`service` (string: `service_a` default or `service_b`, standing for two providers)': [
    answers(upscale({}), 200, done({ service: 'service_a' })),
    answers(upscale({ service: 'service_b' }), 200, done({ service: 'service_b' })),
    answers(upscale({ service: 'service_c' }), 400),
  ],
  '`model` (service_a only: `Standard V2`, `High Fidelity V2`, `CGI`, `Low Resolution V2`)': [
    answers(upscale({ model: 'CGI' }), 200, done({ model: 'CGI' })),
    ...field(upscale, 'model', ['Standard V2', 'High Fidelity V2', 'Low Resolution V2']),
    rejects(upscale({ model: 'Standard V3' }), 'model'),
    notOfServiceB('model', 'CGI'),
  ],
  '`faceEnhancement` (boolean, service_a only, default true)': [
    ...field(upscale, 'faceEnhancement', [false, true], ['yes']),
    notOfServiceB('faceEnhancement', true),
    sends(upscale({ async: true }), null, { face_enhancement: true }),
  ],
  '`persistToStorage` (boolean, default false; when true the result is stored and a hosted URL returned). Returns a JSON payload with the hosted upscaled image URL':
    [
      answers(upscale({ persistToStorage: true }), 200, {
        data: { ...pictureUrl, persisted: true, storagePath: expect.any(String) },
      }),
      answers(upscale({}), 200, { data: { ...pictureUrl, persisted: false } }),
    ],
  '**POST /api/v1/studio/image/remove-background** — body: `imageUrl` (string, required)': [
    takes(cutOut({})),
    rejects(post('/studio/image/remove-background', {}), 'imageUrl'),
  ],
  '`model` (`General Use (Light)` default, `General Use (Heavy)`, `Portrait`)': [
    answers(cutOut({}), 200, done({ model: 'General Use (Light)' })),
    answers(cutOut({ model: 'Portrait' }), 200, done({ model: 'Portrait' })),
    plans(cutOut({ model: 'General Use (Light)' }), cutOut({ model: 'General Use (Heavy)' })),
    rejects(cutOut({ model: 'Landscape' }), 'model', 'UNKNOWN_MODEL'),
  ],
  '`operatingResolution` (`1024x1024` default, `2048x2048`, `2304x2304`)': [
    answers(cutOut({}), 200, done({ operatingResolution: '1024x1024' })),
    answers(cutOut(largest), 200, done(largest)),
    ...field(cutOut, 'operatingResolution', ['1024x1024', '2048x2048'], ['512x512']),
  ],
  '`refineForeground` (boolean, default true)': [
    ...field(cutOut, 'refineForeground', [false], [1]),
    sends(cutOut({ async: true }), null, { refine_foreground: true }),
  ],
  '`persistToStorage` (boolean, default false). Returns a JSON payload with the hosted result URL':
    [
      answers(cutOut({ persistToStorage: true }), 200, {
        data: { ...pictureUrl, persisted: true },
      }),
      answers(cutOut({}), 200, { data: { ...pictureUrl, persisted: false } }),
    ],
  '**POST /api/v1/studio/image/batch** — body: `operation` (string, required: `remove-background` or `upscale`)':
    field(batch, 'operation', ['remove-background', 'upscale'], [undefined, 'sharpen']),
  '`imageUrls` (array of URL strings, required, 1–10), `scaleFactor`': [
    ...picturesAreLimited(withPictures('batch', { operation: 'remove-background' })),
    ...field(batch, 'imageUrls', [], [undefined, ['no url']]),
  ],
  '(number, upscale only, default 2)': [
    ...field(batch, 'scaleFactor', [4, 2, 6], [3]),
    onlyOfUpscale('scaleFactor', 2),
    sends(batch({ async: true }), null, { upscale_factor: 2 }),
  ],
  '`service` (upscale only, `service_a` default or `service_b`)': [
    ...field(batch, 'service', ['service_b', 'service_a']),
    onlyOfUpscale('service', 'service_a'),
  ],
  'The machine description instead lists a required `prompts` array of strings; which form a server must accept is not reconciled there':
    [
      // Both forms are accepted if the strings are URLs.
      takes(
        withPicture('batch', (url) => ({ prompts: [url] }))({ operation: 'remove-background' }),
      ),
      rejects(batch({ imageUrls: undefined, prompts: ['a pier'] }), 'prompts'),
    ],
  'Response `data`: `total`, `successful`, `failed` (numbers) and `results` array of `{success: boolean, index: number, data: <result URL string>}`; plus `credits`':
    answers(
      batch({}),
      200,
      done({
        total: 2,
        successful: 2,
        failed: 0,
        results: [0, 1].map((index) => ({ success: true, index, data: anUrl })),
      }),
    ),
});

/** §4.7. */
export const imageLines = [...generateLines, ...editLines, ...toolLines];
