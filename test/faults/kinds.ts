/** One request of each Studio kind, with inputs that the sandbox can read. */

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
  answersOnce: boolean;
  /** True if the result is data only, so that nothing is stored. */
  storesNothing?: true;
}

const studio = '/api/v1/studio';

/** Every workflow type. */
export const kinds: readonly Kind[] = [
  {
    name: 'imageGenerate',
    path: `${studio}/image/generate`,
    body: (_, prompt) => ({ prompt }),
    answersOnce: false,
  },
  {
    name: 'imageEdit',
    path: `${studio}/image/edit`,
    body: ({ picture }, prompt) => ({ prompt, imageUrls: [picture] }),
    answersOnce: false,
  },
  {
    name: 'imageUpscale',
    path: `${studio}/image/upscale`,
    body: ({ picture }) => ({ imageUrl: picture }),
    answersOnce: false,
  },
  {
    name: 'imageRemoveBackground',
    path: `${studio}/image/remove-background`,
    body: ({ picture }) => ({ imageUrl: picture }),
    answersOnce: false,
  },
  {
    name: 'imageBatch',
    path: `${studio}/image/batch`,
    body: ({ picture }) => ({ operation: 'remove-background', imageUrls: [picture, picture] }),
    answersOnce: false,
  },
  {
    name: 'videoGenerate',
    path: `${studio}/video/generate`,
    body: (_, prompt) => ({ prompt }),
    answersOnce: false,
  },
  {
    name: 'videoUpscale',
    path: `${studio}/video/upscale`,
    body: ({ film }) => ({ videoUrl: film }),
    answersOnce: false,
  },
  {
    name: 'videoRemoveBackground',
    path: `${studio}/video/remove-background`,
    body: ({ film }) => ({ videoUrl: film }),
    answersOnce: false,
  },
  {
    name: 'voiceoverGenerate',
    path: `${studio}/voiceover/generate`,
    body: (_, text) => ({ text, title: 'Title' }),
    answersOnce: true,
  },
  {
    name: 'dialogueGenerate',
    path: `${studio}/dialogue/generate`,
    body: (_, text) => ({ title: 'Title', inputs: [{ voiceId: 'adam', text }] }),
    answersOnce: true,
  },
  {
    name: 'musicGenerate',
    path: `${studio}/music/generate`,
    body: (_, prompt) => ({ prompt, durationSeconds: 5 }),
    answersOnce: true,
  },
  {
    name: 'musicPlan',
    path: `${studio}/music/plan`,
    body: (_, prompt) => ({ prompt, music_length_ms: 5000 }),
    answersOnce: true,
    storesNothing: true,
  },
  {
    name: 'sfxGenerate',
    path: `${studio}/sfx/generate`,
    body: (_, prompt) => ({ prompt, durationSeconds: 1 }),
    answersOnce: true,
  },
  {
    name: 'audioTranscribe',
    path: `${studio}/audio/transcribe`,
    body: ({ speech }) => ({ audioUrl: speech }),
    answersOnce: true,
  },
];
