/** Spec §4.8 (voice), §4.9 (music) and §4.10 (video, sound effects, transcription), line by line. */
import { expect } from 'vitest';
import { voices } from '../../catalog/voices.ts';
import {
  answers,
  anUrl,
  becomes,
  done,
  line,
  post,
  refuses,
  send,
  takes,
  tells,
  type Bench,
  type Check,
  type Loose,
  type Request,
} from './bench.ts';
import { uploadOfTranscription } from './rule-lines.ts';

const voiceover = (fields: object): Request =>
  post('/studio/voiceover/generate', { text: 'Welcome.', title: 'Greeting', ...fields });
const inputs = [
  { text: 'Is the boat in?', voiceId: 'rachel' },
  { text: 'Since dawn.', voiceId: 'george' },
  { text: 'Good.', voiceId: 'rachel' },
];
const dialogue = (fields: object): Request =>
  post('/studio/dialogue/generate', { inputs, title: 'At the pier', ...fields });
const plan = (fields: object): Request =>
  post('/studio/music/plan', { prompt: 'a song of the sea', ...fields });
const song = (fields: object): Request =>
  post('/studio/music/generate', { prompt: 'a song of the sea', mode: 'audio-only', ...fields });
const video = (fields: object): Request =>
  post('/studio/video/generate', { prompt: 'waves', ...fields });
const ofFilm = (tool: string): Request =>
  post(`/studio/video/${tool}`, ({ film }: Bench) => ({ videoUrl: film }));
const transcribe = (fields: object): Request =>
  post('/studio/audio/transcribe', ({ speechUrl }: Bench) => ({ audioUrl: speechUrl, ...fields }));

/** 0–1, 0.5 where nothing is said, as the answer tells. */
function share(ask: (fields: object) => Request, field: string): Check[] {
  return [
    answers(ask({}), 200, { data: { metadata: { [field]: 0.5 } } }),
    takes(ask({ [field]: 0 }), ask({ [field]: 1 })),
    refuses(ask({ [field]: 1.1 }), field),
    refuses(ask({ [field]: -0.1 }), field),
    refuses(ask({ [field]: '0.5' }), field),
  ];
}

const titleOf = (ask: (fields: object) => Request): Check[] => [
  takes(ask({ title: 'a' }), ask({ title: 'x'.repeat(255) })),
  refuses(ask({ title: undefined }), 'title'),
  refuses(ask({ title: '' }), 'title'),
  refuses(ask({ title: 'x'.repeat(256) }), 'title'),
];

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

function lasts(request: Request, wantedMs: number): Check {
  return async (bench) => {
    const { status, body } = await send(bench, request);
    expect(status, JSON.stringify(body)).toBe(200);
    const { duration } = body['data'] as { duration: number };
    expect(Math.abs(duration - wantedMs)).toBeLessThan(500);
  };
}

const unwrappedPlan: Check = async (bench) => {
  const { status, body } = await send(bench, plan({ music_length_ms: 20_000 }));
  expect(status).toBe(200);
  expect(Object.keys(body).toSorted()).toEqual([
    'negative_global_styles',
    'positive_global_styles',
    'sections',
  ]);
  const sections = body['sections'] as Loose[];
  expect(sections.length).toBeGreaterThan(0);
  for (const section of sections) {
    expect(section).toMatchObject({
      section_name: expect.any(String),
      positive_local_styles: expect.any(Array),
      negative_local_styles: expect.any(Array),
      duration_ms: expect.any(Number),
      lines: expect.any(Array),
    });
  }
  const lengthMs = sections.reduce((sum, { duration_ms: ms }) => sum + Number(ms), 0);
  expect(Math.abs(lengthMs - 20_000)).toBeLessThan(1000);
  // What the plan endpoint answers, generate takes.
  await takes(song({ prompt: undefined, composition_plan: body }))(bench);
};

const uploadedFileId: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 100 });
  const signing = post('/storage/upload-url', { contentType: 'audio/mpeg' });
  const { body } = await send(bench, signing, caller);
  const target = body as { fileId: string; uploadUrl: string; headers: Record<string, string> };
  await fetch(target.uploadUrl, { method: 'PUT', headers: target.headers, body: bench.speech });
  const request = post('/studio/audio/transcribe', { fileId: target.fileId });
  const answer = await send(bench, request, caller);
  expect({ status: answer.status, body: answer.body }).toMatchObject({
    status: 200,
    body: done({ source: 'file' }),
  });
};

const durations = (model: string, good: number[], wrong: number[]): Check[] => [
  takes(...good.map((durationSeconds) => video({ model, durationSeconds }))),
  ...wrong.map((durationSeconds) => refuses(video({ model, durationSeconds }), 'durationSeconds')),
];

const asynchronous = {
  data: { jobId: expect.any(String), statusUrl: expect.any(String) },
  credits: { used: 0 },
};

/** §4.8. */
export const voiceLines = [
  line(
    '4.8',
    '**POST /api/v1/studio/voiceover/generate** — text-to-speech. Body: `text` (string, required, 1–5000 chars)',
    takes(voiceover({ text: 'a' }), voiceover({ text: 'x'.repeat(5000) })),
    refuses(voiceover({ text: undefined }), 'text'),
    refuses(voiceover({ text: '' }), 'text'),
    refuses(voiceover({ text: 'x'.repeat(5001) }), 'text'),
  ),
  line(
    '4.8',
    '`title` (string, required, 1–255 chars; the machine description lists only `text` as required)',
    ...titleOf(voiceover),
  ),
  line(
    '4.8',
    '`voice` (string, a voice name from a fixed list of 23 lowercase first-name strings; default is one of them)',
    async () => {
      expect(voices).toHaveLength(23);
      for (const { name } of voices) expect(name).toMatch(/^[a-z]+$/);
    },
    answers(voiceover({ voice: 'adam' }), 200, done({ voice: 'adam' })),
    takes(...voices.map(({ name }) => voiceover({ voice: name }))),
    refuses(voiceover({ voice: 'Rachel' }), 'voice'),
    answers(voiceover({}), 200, {
      data: {
        voice: expect.toSatisfy((voice: string) => voices.some(({ name }) => name === voice)),
      },
    }),
  ),
  line(
    '4.8',
    '`stability` (number 0–1, default 0.5), `similarityBoost` (number 0–1, default 0.5). Response `data`: `url`',
    ...share(voiceover, 'stability'),
    ...share(voiceover, 'similarityBoost'),
  ),
  line(
    '4.8',
    ', `storagePath`, `format` (`mp3`), `title`, `voice`, `model` (string), `textLength` (number), `metadata` (`stability`, `similarityBoost`)',
    answers(voiceover({ voice: 'adam', text: 'Hi 🌊.' }), 200, {
      data: {
        url: anUrl,
        storagePath: expect.any(String),
        format: 'mp3',
        title: 'Greeting',
        voice: 'adam',
        model: expect.any(String),
        // Characters.
        textLength: 5,
        metadata: { stability: 0.5, similarityBoost: 0.5 },
      },
    }),
  ),
  line(
    '4.8',
    '**POST /api/v1/studio/dialogue/generate** — body: `inputs` (array, required, of `{text: string, voiceId: string}` where voiceId is a voice name from the same list)',
    takes(dialogue({ inputs: voices.map(({ name }) => ({ text: 'Hi.', voiceId: name })) })),
    refuses(dialogue({ inputs: undefined }), 'inputs'),
    refuses(dialogue({ inputs: [] }), 'inputs'),
    refuses(dialogue({ inputs: [{ text: 'Hi.', voiceId: 'nobody' }] }), 'inputs'),
    refuses(dialogue({ inputs: [{ voiceId: 'adam' }] }), 'inputs'),
  ),
  line('4.8', '`title` (string, required, 1–255 chars), `stability`', ...titleOf(dialogue)),
  line(
    '4.8',
    '(0–1, default 0.5), `similarityBoost` (0–1, default 0.5)',
    ...share(dialogue, 'stability'),
    ...share(dialogue, 'similarityBoost'),
  ),
  line(
    '4.8',
    [
      'Each line is spoken by its voice and the lines are stitched into one audio file',
      'Response `data`: `url`, `storagePath`, `format`, `title`, `model`, `dialogueLines` (array of `{line: number, voice, text}`), `voicesUsed` (array of strings), `totalLines`, `totalTextLength`, `metadata` (`stability`, `similarityBoost`, `chunks`)',
    ],
    answers(
      dialogue({}),
      200,
      done({
        url: anUrl,
        storagePath: expect.any(String),
        format: 'mp3',
        title: 'At the pier',
        model: expect.any(String),
        dialogueLines: inputs.map(({ text, voiceId }, index) => ({
          line: index + 1,
          voice: voiceId,
          text,
        })),
        voicesUsed: ['rachel', 'george'],
        totalLines: 3,
        totalTextLength: 31,
        metadata: { stability: 0.5, similarityBoost: 0.5, chunks: 1 },
      }),
    ),
  ),
];

/** §4.9. */
export const musicLines = [
  line(
    '4.9',
    '**POST /api/v1/studio/music/plan** — body: `prompt` (string, required)',
    takes(plan({})),
    refuses(plan({ prompt: undefined }), 'prompt'),
  ),
  line(
    '4.9',
    '`music_length_ms` (number, target duration), `source_composition_plan` (object, plan to modify), `model_id` (string)',
    takes(
      plan({ music_length_ms: 20_000 }),
      plan({ source_composition_plan: composition }),
      plan({ model_id: 'music_v1' }),
    ),
    refuses(plan({ music_length_ms: 'long' }), 'music_length_ms'),
    refuses(plan({ source_composition_plan: 'a song' }), 'source_composition_plan'),
  ),
  line(
    '4.9',
    'Response (not wrapped in the common envelope): `positive_global_styles` (array of strings), `negative_global_styles` (array of strings), `sections` (array of `{section_name, positive_local_styles[], negative_local_styles[], duration_ms, lines[]}`)',
    unwrappedPlan,
  ),
  line(
    '4.9',
    '**POST /api/v1/studio/music/generate** — body: `prompt` (string; used when no plan is given)',
    takes(song({})),
    takes(song({ composition_plan: composition })),
    refuses(song({ prompt: undefined }), 'prompt'),
  ),
  line(
    '4.9',
    [
      '`composition_plan` (object, from the plan endpoint; the machine description names this `plan`)',
      'The machine description lists `prompt` as required',
    ],
    lasts(song({ prompt: undefined, composition_plan: composition }), 12_000),
    lasts(song({ prompt: undefined, plan: composition }), 12_000),
  ),
  line(
    '4.9',
    '`durationSeconds` (number, default 30)',
    lasts(song({}), 30_000),
    lasts(song({ durationSeconds: 10 }), 10_000),
    lasts(song({ durationSeconds: 10.5 }), 10_500),
  ),
  line(
    '4.9',
    '`coverPrompt` (string, full mode only)',
    tells(song({ mode: 'full', coverPrompt: 'a red lighthouse' }), 'a red lighthouse', {
      prompt: 'a red lighthouse',
    }),
    refuses(song({ coverPrompt: 'a red lighthouse' }), 'coverPrompt', 'UNSUPPORTED_PARAMETER'),
  ),
  line(
    '4.9',
    '`force_instrumental` (boolean, default false), `model_id` (string), `mode`',
    takes(song({ force_instrumental: true }), song({ model_id: 'music_v1' })),
    refuses(song({ force_instrumental: 'no' }), 'force_instrumental'),
  ),
  line(
    '4.9',
    '(`full` with cover art and lyrics, or `audio-only`; default `full`)',
    answers(song({ mode: undefined }), 200, {
      data: { coverUrl: anUrl, lyrics: expect.any(String) },
    }),
    answers(song({ mode: 'full' }), 200, { data: { coverUrl: anUrl } }),
    takes(song({ mode: 'audio-only' })),
    refuses(song({ mode: 'video' }), 'mode'),
  ),
  line(
    '4.9',
    'Response `data`: `url`, `storagePath`, `format` (`mp3`), `duration` (number, milliseconds), `title` (string or null), `model` (string)',
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
  ),
];

/** §4.10. */
export const filmLines = [
  line(
    '4.10',
    '| /api/v1/studio/video/generate | `prompt` (string, required), `model` (string), `imageUrl` (string), `async` |',
    takes(
      video({}),
      video({ model: 'veo', async: true }),
      post('/studio/video/generate', ({ picture }) => ({ prompt: 'x', imageUrl: picture })),
    ),
    refuses(video({ prompt: undefined }), 'prompt'),
    refuses(video({ model: 'unknown' }), 'model', 'UNKNOWN_MODEL'),
    refuses(video({ imageUrl: 'no url' }), 'imageUrl'),
    refuses(video({ async: 'later' }), 'async'),
  ),
  line(
    '4.10',
    '| /api/v1/studio/video/upscale | `videoUrl` (string, required) |',
    becomes(ofFilm('upscale'), { url: anUrl, format: 'mp4' }),
    refuses(post('/studio/video/upscale', {}), 'videoUrl'),
  ),
  line(
    '4.10',
    '| /api/v1/studio/video/remove-background | `videoUrl` (string, required) |',
    becomes(ofFilm('remove-background'), { url: anUrl, format: 'mp4' }),
    refuses(post('/studio/video/remove-background', {}), 'videoUrl'),
  ),
  line(
    '4.10',
    '| /api/v1/studio/sfx/generate | `prompt` (string, required) |',
    answers(post('/studio/sfx/generate', { prompt: 'a horn' }), 200, done({ url: anUrl })),
    refuses(post('/studio/sfx/generate', {}), 'prompt'),
  ),
  line(
    '4.10',
    '| /api/v1/studio/audio/transcribe | JSON: `fileId`, `audioUrl` (URI), `language`, `fileName` (all strings, none individually required)',
    answers(transcribe({}), 200, done({ source: 'url' })),
    takes(transcribe({ language: 'en', fileName: 'talk.mp3' })),
    uploadedFileId,
    refuses(transcribe({ audioUrl: 'no url' }), 'audioUrl'),
    refuses(transcribe({ language: 5 }), 'language'),
    refuses(post('/studio/audio/transcribe', { fileName: 'talk.mp3' }), 'audioUrl'),
  ),
  line('4.10', 'or multipart/form-data with `file` (max 4.5 MB)', uploadOfTranscription),
  line(
    '4.10',
    'Speech-to-text with word-level timestamps',
    answers(transcribe({}), 200, {
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
  ),
  line(
    '4.10',
    'Video generation is long-running and supports async polling',
    answers(video({}), 202, asynchronous),
    becomes(video({ durationSeconds: 4 }), { url: anUrl, model: 'veo' }),
  ),
  line(
    '4.10',
    'Video model ids: `veo` (4/6/8 s, audio)',
    ...durations('veo', [4, 6, 8], [3, 5, 7, 9]),
    takes(video({ model: 'veo', generateAudio: true })),
  ),
  line(
    '4.10',
    '`kling-3.0-pro` (3–15 s, audio)',
    ...durations('kling-3.0-pro', [3, 15], [2, 16]),
    takes(video({ model: 'kling-3.0-pro', generateAudio: true })),
  ),
  line(
    '4.10',
    '`seedance-2.5` (text/image/reference, 4–30 s)',
    ...durations('seedance-2.5', [4, 30], [3, 31]),
    takes(
      post('/studio/video/generate', ({ picture }) => ({
        prompt: 'x',
        model: 'seedance-2.5',
        imageUrl: picture,
      })),
      post('/studio/video/generate', ({ picture }) => ({
        prompt: 'x',
        model: 'seedance-2.5',
        referenceUrls: [picture],
      })),
    ),
  ),
  line(
    '4.10',
    '`seedance-2.0` (480p/720p, audio)',
    takes(
      ...['480p', '720p'].map((resolution) => video({ model: 'seedance-2.0', resolution })),
      video({ model: 'seedance-2.0', generateAudio: true }),
    ),
    refuses(video({ model: 'seedance-2.0', resolution: '1080p' }), 'resolution'),
  ),
  line(
    '4.10',
    'Image model ids for Studio: `nano-banana`, `seedream`, `alpha-imagen-ultra`, `alpha-image`',
    ...['nano-banana', 'seedream', 'alpha-imagen-ultra', 'alpha-image'].map((model) =>
      answers(
        post('/studio/image/generate', { prompt: 'a pier at dawn', model }),
        200,
        done({ model }),
      ),
    ),
  ),
];
