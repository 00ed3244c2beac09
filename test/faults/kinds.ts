/** One request of each kind of job, with inputs that the sandbox can read. */
import type { Point } from './points.ts';

/** URLs of inputs. */
export interface Inputs {
  picture: string;
  film: string;
  speech: string;
}

/** Request of a kind, and properties of its providers' responses. */
export interface Kind {
  name: string;
  path: string;
  body: (inputs: Inputs, words: string) => Record<string, unknown>;
  /** True if the result is only in the response to the submit, and is lost with it. */
  answersOnce?: true;
  /** True if the result is data only, so that nothing is stored. */
  storesNothing?: true;
  /**
   * Indexes of the two calls at which a pipeline waits at the same time. Neither belongs to its first
   * or last step. One provider queues the call; the other returns the result in its only response.
   */
  middle?: readonly number[];
  /** Points that jobs of the kind reach; by default those of a Studio job. */
  points?: readonly Point[];
}

const kind = (
  name: string,
  path: string,
  body: Kind['body'],
  properties: Pick<Kind, 'answersOnce' | 'storesNothing' | 'middle'> = {},
): Kind => ({ name, path: `/api/v1/studio/${path}`, body, ...properties });
const once = { answersOnce: true } as const;
const fromPicture: Kind['body'] = ({ picture }) => ({ imageUrl: picture });
const fromFilm: Kind['body'] = ({ film }) => ({ videoUrl: film });
const fromWords: Kind['body'] = (_, prompt) => ({ prompt });

/** Four steps of a pipeline: one takes the result of the first, and another one that of the second. */
const steps: Kind['body'] = (_, text) => ({
  steps: [
    { id: 'art', use: 'image/generate', body: { prompt: text } },
    { id: 'cut', use: 'image/remove-background', body: { imageUrl: { $from: 'art' } } },
    { id: 'voice', use: 'voiceover/generate', body: { text, title: 'Title' } },
    { id: 'large', use: 'image/upscale', body: { imageUrl: { $from: 'cut' } }, maxCredits: 100 },
  ],
});

/** Every workflow type of a job. */
export const kinds: readonly Kind[] = [
  kind('imageGenerate', 'image/generate', fromWords),
  kind('imageEdit', 'image/edit', ({ picture }, prompt) => ({ prompt, imageUrls: [picture] })),
  kind('imageUpscale', 'image/upscale', fromPicture),
  kind('imageRemoveBackground', 'image/remove-background', fromPicture),
  kind('imageBatch', 'image/batch', ({ picture }) => ({
    operation: 'remove-background',
    imageUrls: [picture, picture],
  })),
  kind('videoGenerate', 'video/generate', fromWords),
  kind('videoUpscale', 'video/upscale', fromFilm),
  kind('videoRemoveBackground', 'video/remove-background', fromFilm),
  kind('videoMerge', 'video/merge', ({ film }) => ({ videoUrls: [film, film] })),
  kind('voiceoverGenerate', 'voiceover/generate', (_, text) => ({ text, title: 'Title' }), once),
  kind(
    'dialogueGenerate',
    'dialogue/generate',
    (_, text) => ({ title: 'Title', inputs: [{ voiceId: 'adam', text }] }),
    once,
  ),
  kind('musicGenerate', 'music/generate', (_, prompt) => ({ prompt, durationSeconds: 5 }), once),
  kind('musicPlan', 'music/plan', (_, prompt) => ({ prompt, music_length_ms: 5000 }), {
    ...once,
    storesNothing: true,
  }),
  kind('sfxGenerate', 'sfx/generate', (_, prompt) => ({ prompt, durationSeconds: 1 }), once),
  kind('audioTranscribe', 'audio/transcribe', ({ speech }) => ({ audioUrl: speech }), once),
  kind('pipeline', 'pipelines', steps, { middle: [1, 2] }),
  {
    name: 'chatAnswer',
    path: '/api/v1/chat',
    body: (_, text) => ({
      model: 'gpt-4o',
      messages: [{ role: 'user', content: `[[words:60]] [[slow-chunks:50ms]] ${text}` }],
      async: true,
    }),
    // test/chat/background-crashes.slow.test.ts kills processes in the middle of an answer.
    points: ['before-start', 'reserved', 'stored', 'charged', 'not-answered'],
  },
];
