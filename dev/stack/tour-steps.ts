/** The stops of `npm run demo`, in an order in which each can use what the ones before it made. */

/** What earlier stops made. */
export interface Made {
  imageUrl?: string | undefined;
  voiceUrl?: string | undefined;
  videoUrl?: string | undefined;
  plan?: Record<string, unknown>;
}

type Data = Record<string, unknown>;

/** A request of a stop. */
export interface TourRequest {
  path: string;
  init: RequestInit;
}

/** Calls the API with the demo key. */
export type Call = (path: string, init?: RequestInit) => Promise<{ body: Data }>;

/** One stop. */
export interface TourStep {
  /** Name of the saved files. */
  name: string;
  title: string;
  request: (made: Made, call: Call) => TourRequest | Promise<TourRequest>;
  keep?: (made: Made, data: Data) => void;
}

const post = (path: string, body: object): TourRequest => ({
  path: `/api/v1/studio/${path}`,
  init: { method: 'POST', body: JSON.stringify(body) },
});

const imageSteps: TourStep[] = [
  {
    name: 'image',
    title: 'image/generate',
    request: () => post('image/generate', { prompt: 'a lighthouse at dawn', aspectRatio: '16:9' }),
    keep: (made, data) => {
      [made.imageUrl] = mediaUrls(data);
    },
  },
  {
    name: 'image-transparent',
    title: 'image/generate, transparent WebP',
    request: () =>
      post('image/generate', {
        prompt: 'a paper boat',
        model: 'alpha-image-2',
        background: 'transparent',
        outputFormat: 'webp',
      }),
  },
  {
    name: 'edit',
    title: 'image/edit',
    request: (made) =>
      post('image/edit', { prompt: 'make it night, with a full moon', imageUrls: [made.imageUrl] }),
  },
  {
    name: 'upscale',
    title: 'image/upscale ×2',
    request: (made) => post('image/upscale', { imageUrl: made.imageUrl, persistToStorage: true }),
  },
  {
    name: 'cutout',
    title: 'image/remove-background',
    request: (made) => post('image/remove-background', { imageUrl: made.imageUrl }),
  },
  {
    name: 'batch',
    title: 'image/batch: two cut-outs',
    request: (made) =>
      post('image/batch', {
        operation: 'remove-background',
        imageUrls: [made.imageUrl, made.imageUrl],
      }),
  },
];

const uploadSteps: TourStep[] = [
  {
    name: 'uploaded',
    title: 'storage/upload-url, then a cut-out',
    async request(made, call) {
      const picture = await (await fetch(made.imageUrl ?? '')).arrayBuffer();
      const { body } = await call('/api/v1/storage/upload-url', {
        method: 'POST',
        body: JSON.stringify({ contentType: 'image/png', size: picture.byteLength }),
      });
      const headers = new Headers({ 'content-type': 'image/png' });
      await fetch(String(body['uploadUrl']), { method: 'PUT', headers, body: picture });
      return post('image/remove-background', { imageUrl: body['publicUrl'] });
    },
  },
];

const audioSteps: TourStep[] = [
  {
    name: 'voiceover',
    title: 'voiceover/generate',
    request: () =>
      post('voiceover/generate', {
        title: 'Harbour light',
        text: 'The light turns, and the harbour wakes up. Nobody pays for a boat that never sailed.',
      }),
    keep: (made, data) => {
      [made.voiceUrl] = mediaUrls(data);
    },
  },
  {
    name: 'dialogue',
    title: 'dialogue/generate',
    request: () =>
      post('dialogue/generate', {
        title: 'At the pier',
        inputs: [
          { text: 'Is this the boat to the island?', voiceId: 'aria' },
          { text: 'It is, and it leaves when the tide does.', voiceId: 'roger' },
        ],
      }),
  },
  {
    name: 'music-plan',
    title: 'music/plan',
    request: () => post('music/plan', { prompt: 'a slow sea shanty', music_length_ms: 12_000 }),
    keep: (made, data) => {
      made.plan = data;
    },
  },
  {
    name: 'music',
    title: 'music/generate from the plan',
    request: (made) =>
      post('music/generate', { prompt: 'a slow sea shanty', composition_plan: made.plan }),
  },
  {
    name: 'music-audio-only',
    title: 'music/generate, audio only',
    request: () =>
      post('music/generate', {
        prompt: 'rain on a tin roof',
        durationSeconds: 8,
        mode: 'audio-only',
      }),
  },
  {
    name: 'sfx',
    title: 'sfx/generate',
    request: () => post('sfx/generate', { prompt: 'a foghorn far away' }),
  },
  {
    name: 'transcript',
    title: 'audio/transcribe, by URL',
    request: (made) => post('audio/transcribe', { audioUrl: made.voiceUrl }),
  },
  {
    name: 'transcript-upload',
    title: 'audio/transcribe, uploaded',
    request: async (made) => {
      const file = await (await fetch(made.voiceUrl ?? '')).blob();
      const body = new FormData();
      body.set('file', new File([file], 'voice.mp3', { type: 'audio/mpeg' }));
      return { path: '/api/v1/studio/audio/transcribe', init: { method: 'POST', body } };
    },
  },
];

const videoSteps: TourStep[] = [
  {
    name: 'video',
    title: 'video/generate',
    request: (made) =>
      post('video/generate', {
        prompt: 'waves roll against the pier',
        model: 'seedance-2.0',
        imageUrl: made.imageUrl,
      }),
    keep: (made, data) => {
      [made.videoUrl] = mediaUrls(data);
    },
  },
  {
    name: 'video-upscale',
    title: 'video/upscale',
    request: (made) => post('video/upscale', { videoUrl: made.videoUrl }),
  },
  {
    name: 'video-cutout',
    title: 'video/remove-background',
    request: (made) => post('video/remove-background', { videoUrl: made.videoUrl }),
  },
];

/** All stops. */
export const tourSteps: readonly TourStep[] = [
  ...imageSteps,
  ...uploadSteps,
  ...audioSteps,
  ...videoSteps,
];

/** The URLs of what an answer delivers, each file once; `metadata` may name what was sent in. */
export function mediaUrls(value: unknown): string[] {
  const byFile = new Map(urlsIn(value).map((url) => [new URL(url).pathname, url]));
  return [...byFile.values()];
}

function urlsIn(value: unknown): string[] {
  if (typeof value === 'string') return /^https?:\/\//.test(value) ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([field, inner]) =>
    field === 'metadata' ? [] : urlsIn(inner),
  );
}
