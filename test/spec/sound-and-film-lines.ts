/** Spec §4.8 (voice), §4.9 (music) and §4.10 (video, sound effects, transcription), line by line. */
import { expect } from 'vitest';
import { voices } from '../../studio/models/voices.ts';
import { makeForm, uploadFile } from '../harness/uploads.ts';
import { modelsAreGenerated } from './image-lines.ts';
import {
  answers,
  anUrl,
  completesWith,
  done,
  expectAnswer,
  field,
  defineLines,
  plans,
  post,
  rejects,
  send,
  takes,
  sends,
  type Ask,
  type Bench,
  type Check,
  type Loose,
  type Request,
} from './bench.ts';

const voiceNames = voices.map(({ name }) => name);
const text = (length: number): string => 'x'.repeat(length);
const voiceover: Ask = (fields) =>
  post('/studio/voiceover/generate', { text: 'Welcome.', title: 'Greeting', ...fields });
const inputs = [
  { text: 'Is the boat in?', voiceId: 'rachel' },
  { text: 'Since dawn.', voiceId: 'george' },
  { text: 'Good.', voiceId: 'rachel' },
];
const dialogue: Ask = (fields) =>
  post('/studio/dialogue/generate', { inputs, title: 'At the pier', ...fields });
const plan: Ask = (fields) =>
  post('/studio/music/plan', { prompt: 'a song of the sea', ...fields });
const song: Ask = (fields) =>
  post('/studio/music/generate', { prompt: 'a song of the sea', mode: 'audio-only', ...fields });
const video: Ask = (fields) => post('/studio/video/generate', { prompt: 'waves', ...fields });
/** Returns a request for a video with a picture in this field. */
const videoWith = (fields: (picture: string) => object): Request =>
  post('/studio/video/generate', ({ picture }) => ({ prompt: 'x', ...fields(picture) }));
const ofFilm = (tool: string): Request =>
  post(`/studio/video/${tool}`, ({ film }: Bench) => ({ videoUrl: film }));
const transcribe: Ask = (fields) =>
  post('/studio/audio/transcribe', ({ speechUrl }: Bench) => ({ audioUrl: speechUrl, ...fields }));

/** Numbers from 0 to 1, by default 0.5, which the response states. */
function sharesAreLimited(ask: Ask): Check[] {
  return [
    answers(ask({}), 200, done({ metadata: { stability: 0.5, similarityBoost: 0.5 } })),
    answers(ask({ stability: 0, similarityBoost: 1 }), 200, {
      data: { metadata: { stability: 0, similarityBoost: 1 } },
    }),
    plans(ask({ stability: 1, similarityBoost: 0 })),
    ...['stability', 'similarityBoost'].flatMap((name) =>
      field(ask, name, [], [1.01, -0.01, '0.5']),
    ),
  ];
}
const titleIsLimited = (ask: Ask): Check[] =>
  field(ask, 'title', [text(255), 'a', '🌊'.repeat(255)], [undefined, '', text(256)]);
const voiceoverText = field(voiceover, 'text', ['a', text(5000)], [undefined, '', text(5001)]);

/** The song has this length, within half a second. */
function lasts(request: Request, wantedMs: number): Check {
  return async (bench) => {
    const { status, body } = await send(bench, request);
    expect(status, JSON.stringify(body)).toBe(200);
    const { duration } = body['data'] as { duration: number };
    expect(Math.abs(duration - wantedMs)).toBeLessThan(500);
  };
}

function transcribeBytes({ gateway, speech }: Bench, size: number): Promise<object> {
  const bytes = new Uint8Array(size);
  bytes.set(speech);
  const body = makeForm({ file: new File([bytes], 'talk.mp3') });
  return gateway.call('/api/v1/studio/audio/transcribe', { body });
}

/** 4.5 MB are accepted, in both meanings of the unit, and not one byte more. */
const uploadsOfTranscription: Check = async (bench) => {
  for (const size of [4_500_000, 4.5 * 1024 * 1024]) {
    expect(await transcribeBytes(bench, size)).toMatchObject({
      status: 200,
      body: { success: true },
    });
  }
  const larger = await transcribeBytes(bench, 4.5 * 1024 * 1024 + 1);
  expect(larger).toMatchObject({ status: 413, body: { error: 'FILE_TOO_LARGE' } });
};
let uploaded: Promise<void> | undefined;
/** The same check, once for all lines. */
const uploadOfTranscription: Check = (bench) => (uploaded ??= uploadsOfTranscription(bench));

/** The lines of §8 about sound. */
export const soundLimits = {
  '| Voiceover text | 1–5000 characters | Voiceover |': voiceoverText,
  '| Title | 1–255 characters | Voiceover, dialogue |': [
    ...titleIsLimited(voiceover),
    ...titleIsLimited(dialogue),
  ],
  '| stability, similarityBoost | 0–1, default 0.5 | Voiceover, dialogue |': [
    ...sharesAreLimited(voiceover),
    ...sharesAreLimited(dialogue),
  ],
  '| Music duration | default 30 s | Music generate |': lasts(song({}), 30_000),
  '| Transcription upload | max 4.5 MB | Multipart transcribe |': uploadOfTranscription,
};

const composition = {
  positive_global_styles: ['calm'],
  negative_global_styles: ['loud'],
  sections: [
    {
      section_name: 'Verse',
      positive_local_styles: [],
      negative_local_styles: [],
      duration_ms: 12_000,
      lines: ['The tide is out'],
    },
  ],
};

const unwrappedPlan: Check = async (bench) => {
  const { status, body } = await send(bench, plan({ music_length_ms: 20_000 }));
  const list = expect.any(Array);
  const fields = { positive_global_styles: list, negative_global_styles: list, sections: list };
  expect({ status, body }).toEqual({ status: 200, body: fields });
  const sections = body['sections'] as Loose[];
  expect(sections.length).toBeGreaterThan(0);
  for (const section of sections) {
    expect(section).toMatchObject({
      section_name: expect.any(String),
      positive_local_styles: list,
      negative_local_styles: list,
      duration_ms: expect.any(Number),
      lines: list,
    });
  }
  const lengthMs = sections.reduce((sum, { duration_ms: ms }) => sum + Number(ms), 0);
  expect(Math.abs(lengthMs - 20_000)).toBeLessThan(1000);
  // The endpoint for songs accepts the response of the endpoint for plans.
  await takes(song({ prompt: undefined, composition_plan: body }))(bench);
};

const uploadedFileId: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 100 });
  const { fileId } = await uploadFile(bench.gateway, bench.speech, {}, caller.key);
  const request = post('/studio/audio/transcribe', { fileId });
  await expectAnswer(bench, request, caller, 200, done({ source: 'file' }));
};

/** §4.8. */
export const voiceLines = defineLines('4.8', {
  '**POST /api/v1/studio/voiceover/generate** — text-to-speech. Body: `text` (string, required, 1–5000 chars)':
    voiceoverText,
  '`title` (string, required, 1–255 chars; the machine description lists only `text` as required)':
    titleIsLimited(voiceover),
  '`voice` (string, a voice name from a fixed list of 23 lowercase first-name strings; default is one of them)':
    [
      async () => {
        expect(voiceNames).toHaveLength(23);
        for (const name of voiceNames) expect(name).toMatch(/^[a-z]+$/);
      },
      answers(voiceover({ voice: 'adam' }), 200, done({ voice: 'adam' })),
      plans(...voiceNames.map((voice) => voiceover({ voice }))),
      rejects(voiceover({ voice: 'Rachel' }), 'voice'),
      answers(voiceover({}), 200, { data: { voice: expect.toBeOneOf(voiceNames) } }),
    ],
  '`stability` (number 0–1, default 0.5), `similarityBoost` (number 0–1, default 0.5). Response `data`: `url`':
    sharesAreLimited(voiceover),
  ', `storagePath`, `format` (`mp3`), `title`, `voice`, `model` (string), `textLength` (number), `metadata` (`stability`, `similarityBoost`)':
    answers(voiceover({ voice: 'adam', text: 'Hi 🌊.' }), 200, {
      data: {
        url: anUrl,
        storagePath: expect.any(String),
        format: 'mp3',
        title: 'Greeting',
        voice: 'adam',
        model: expect.any(String),
        // The unit is characters.
        textLength: 5,
        metadata: { stability: 0.5, similarityBoost: 0.5 },
      },
    }),
  '**POST /api/v1/studio/dialogue/generate** — body: `inputs` (array, required, of `{text: string, voiceId: string}` where voiceId is a voice name from the same list)':
    field(
      dialogue,
      'inputs',
      [voiceNames.map((voiceId) => ({ text: 'Hi.', voiceId }))],
      [undefined, [], [{ text: 'Hi.', voiceId: 'nobody' }], [{ voiceId: 'adam' }]],
    ),
  '`title` (string, required, 1–255 chars), `stability`': titleIsLimited(dialogue),
  '(0–1, default 0.5), `similarityBoost` (0–1, default 0.5)': sharesAreLimited(dialogue),
  'Each line is spoken by its voice and the lines are stitched into one audio file … Response `data`: `url`, `storagePath`, `format`, `title`, `model`, `dialogueLines` (array of `{line: number, voice, text}`), `voicesUsed` (array of strings), `totalLines`, `totalTextLength`, `metadata` (`stability`, `similarityBoost`, `chunks`)':
    answers(
      dialogue({}),
      200,
      done({
        url: anUrl,
        storagePath: expect.any(String),
        format: 'mp3',
        title: 'At the pier',
        model: expect.any(String),
        dialogueLines: inputs.map((input, index) => ({
          line: index + 1,
          voice: input.voiceId,
          text: input.text,
        })),
        voicesUsed: ['rachel', 'george'],
        totalLines: 3,
        totalTextLength: 31,
        metadata: { stability: 0.5, similarityBoost: 0.5, chunks: 1 },
      }),
    ),
});

/** §4.9. */
export const musicLines = defineLines('4.9', {
  '**POST /api/v1/studio/music/plan** — body: `prompt` (string, required)': [
    takes(plan({})),
    rejects(plan({ prompt: undefined }), 'prompt'),
  ],
  '`music_length_ms` (number, target duration), `source_composition_plan` (object, plan to modify), `model_id` (string)':
    [
      ...field(plan, 'music_length_ms', [20_000], ['long']),
      ...field(plan, 'source_composition_plan', [composition], ['a song']),
      ...field(plan, 'model_id', ['music_v1']),
    ],
  'Response (not wrapped in the common envelope): `positive_global_styles` (array of strings), `negative_global_styles` (array of strings), `sections` (array of `{section_name, positive_local_styles[], negative_local_styles[], duration_ms, lines[]}`)':
    unwrappedPlan,
  '**POST /api/v1/studio/music/generate** — body: `prompt` (string; used when no plan is given)': [
    takes(song({})),
    plans(song({ composition_plan: composition })),
    rejects(song({ prompt: undefined }), 'prompt'),
  ],
  '`composition_plan` (object, from the plan endpoint; the machine description names this `plan`) … The machine description lists `prompt` as required':
    [
      lasts(song({ prompt: undefined, composition_plan: composition }), 12_000),
      lasts(song({ prompt: undefined, plan: composition }), 12_000),
    ],
  '`durationSeconds` (number, default 30)': [
    lasts(song({}), 30_000),
    lasts(song({ durationSeconds: 10.5 }), 10_500),
  ],
  '`coverPrompt` (string, full mode only)': [
    sends(song({ mode: 'full', coverPrompt: 'a red lighthouse' }), 'a red lighthouse', {
      prompt: 'a red lighthouse',
    }),
    rejects(song({ coverPrompt: 'a red lighthouse' }), 'coverPrompt', 'UNSUPPORTED_PARAMETER'),
  ],
  '`force_instrumental` (boolean, default false), `model_id` (string), `mode`': [
    ...field(song, 'force_instrumental', [true], ['no']),
    ...field(song, 'model_id', ['music_v1']),
  ],
  '(`full` with cover art and lyrics, or `audio-only`; default `full`)': [
    answers(song({ mode: undefined }), 200, {
      data: { coverUrl: anUrl, lyrics: expect.any(String) },
    }),
    plans(song({ mode: 'full' }), song({ mode: 'audio-only' })),
    rejects(song({ mode: 'video' }), 'mode'),
  ],
  'Response `data`: `url`, `storagePath`, `format` (`mp3`), `duration` (number, milliseconds), `title` (string or null), `model` (string)':
    answers(
      song({}),
      200,
      done({
        url: anUrl,
        storagePath: expect.any(String),
        format: 'mp3',
        duration: expect.any(Number),
        title: expect.toBeOneOf([null, expect.any(String)]),
        model: expect.any(String),
      }),
    ),
});

const durations = (model: string, valid: number[], invalid: number[]): Check[] =>
  field((fields) => video({ model, ...fields }), 'durationSeconds', valid, invalid);
const asynchronous = {
  data: { jobId: expect.any(String), statusUrl: expect.any(String) },
  credits: { used: 0 },
};

/** §4.10. */
export const filmLines = defineLines('4.10', {
  '| /api/v1/studio/video/generate | `prompt` (string, required), `model` (string), `imageUrl` (string), `async` |':
    [
      takes(videoWith((imageUrl) => ({ imageUrl, async: true }))),
      rejects(video({ prompt: undefined }), 'prompt'),
      rejects(video({ model: 'unknown' }), 'model', 'UNKNOWN_MODEL'),
      rejects(video({ imageUrl: 'no url' }), 'imageUrl'),
      rejects(video({ async: 'later' }), 'async'),
    ],
  '| /api/v1/studio/video/upscale | `videoUrl` (string, required) |': [
    completesWith(ofFilm('upscale'), { url: anUrl, format: 'mp4' }),
    rejects(post('/studio/video/upscale', {}), 'videoUrl'),
  ],
  '| /api/v1/studio/video/remove-background | `videoUrl` (string, required) |': [
    completesWith(ofFilm('remove-background'), { url: anUrl, format: 'mp4' }),
    rejects(post('/studio/video/remove-background', {}), 'videoUrl'),
  ],
  '| /api/v1/studio/sfx/generate | `prompt` (string, required) |': [
    answers(post('/studio/sfx/generate', { prompt: 'a horn' }), 200, done({ url: anUrl })),
    rejects(post('/studio/sfx/generate', {}), 'prompt'),
  ],
  '| /api/v1/studio/audio/transcribe | JSON: `fileId`, `audioUrl` (URI), `language`, `fileName` (all strings, none individually required)':
    [
      answers(transcribe({}), 200, done({ source: 'url' })),
      takes(transcribe({ language: 'en', fileName: 'talk.mp3' })),
      uploadedFileId,
      rejects(transcribe({ audioUrl: 'no url' }), 'audioUrl'),
      rejects(transcribe({ language: 5 }), 'language'),
      rejects(post('/studio/audio/transcribe', { fileName: 'talk.mp3' }), 'audioUrl'),
    ],
  'or multipart/form-data with `file` (max 4.5 MB)': uploadOfTranscription,
  'Speech-to-text with word-level timestamps': answers(transcribe({}), 200, {
    data: {
      text: expect.any(String),
      words: expect.arrayContaining([
        {
          text: expect.any(String),
          start: expect.any(Number),
          end: expect.any(Number),
          type: 'word',
          speakerId: expect.any(String),
        },
      ]),
    },
  }),
  'Video generation is long-running and supports async polling': [
    answers(video({}), 202, asynchronous),
    completesWith(video({ durationSeconds: 4 }), { url: anUrl, model: 'veo' }),
  ],
  'Video model ids: `veo` (4/6/8 s, audio)': [
    ...durations('veo', [4, 6, 8], [3, 5, 7, 9]),
    plans(video({ model: 'veo', generateAudio: true })),
  ],
  '`kling-3.0-pro` (3–15 s, audio)': [
    ...durations('kling-3.0-pro', [3, 15], [2, 16]),
    takes(video({ model: 'kling-3.0-pro', generateAudio: true })),
  ],
  '`seedance-2.5` (text/image/reference, 4–30 s)': [
    ...durations('seedance-2.5', [4, 30], [3, 31]),
    plans(videoWith((imageUrl) => ({ model: 'seedance-2.5', imageUrl }))),
    takes(videoWith((picture) => ({ model: 'seedance-2.5', referenceUrls: [picture] }))),
  ],
  '`seedance-2.0` (480p/720p, audio)': field(
    (fields) => video({ model: 'seedance-2.0', generateAudio: true, ...fields }),
    'resolution',
    ['480p', '720p'],
    ['1080p'],
  ),
  'Image model ids for Studio: `nano-banana`, `seedream`, `alpha-imagen-ultra`, `alpha-image`':
    modelsAreGenerated('nano-banana', 'seedream', 'alpha-imagen-ultra', 'alpha-image'),
});
