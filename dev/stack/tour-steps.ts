/** Steps of `npm run demo`, in an order in which each step can use results of the earlier ones. */

/** Results of earlier steps. */
export interface Made {
  imageUrl?: string | undefined;
  voiceUrl?: string | undefined;
  videoUrl?: string | undefined;
  plan?: Record<string, unknown>;
}

type Data = Record<string, unknown>;

/** Request of a step. */
export interface TourRequest {
  path: string;
  init: RequestInit;
}

/** Calls the API with the demo key. */
export type Call = (path: string, init?: RequestInit) => Promise<{ body: Data }>;

/** One step. */
export interface TourStep {
  /** Name of the saved files. */
  name: string;
  title: string;
  request: (made: Made, call: Call) => TourRequest | Promise<TourRequest>;
  /** Returns the result that later steps use. */
  keep?: (made: Made, data: Data) => void;
}

const post = (path: string, body: object): TourRequest => ({
  path: `/api/v1/studio/${path}`,
  init: { method: 'POST', body: JSON.stringify(body) },
});

/** Makes a step that posts JSON; the title contains its path and a note. */
function stop(
  name: string,
  path: string,
  { note, body, keep }: { note?: string; body: (made: Made) => object; keep?: TourStep['keep'] },
): TourStep {
  const title = note === undefined ? path : `${path}, ${note}`;
  return { name, title, request: (made) => post(path, body(made)), ...(keep && { keep }) };
}

const boat = {
  prompt: 'a paper boat',
  model: 'alpha-image-2',
  background: 'transparent',
  outputFormat: 'webp',
};
const shanty = 'a slow sea shanty';
const light =
  'The light turns, and the harbour wakes up. Nobody pays for a boat that never sailed.';
const pier = [
  { text: 'Is this the boat to the island?', voiceId: 'aria' },
  { text: 'It is, and it leaves when the tide does.', voiceId: 'roger' },
];

/** All steps. */
export const tourSteps: readonly TourStep[] = [
  stop('image', 'image/generate', {
    body: () => ({ prompt: 'a lighthouse at dawn', aspectRatio: '16:9' }),
    keep: (made, data) => ([made.imageUrl] = mediaUrls(data)),
  }),
  stop('image-transparent', 'image/generate', { note: 'transparent WebP', body: () => boat }),
  stop('edit', 'image/edit', {
    body: (made) => ({ prompt: 'make it night, with a full moon', imageUrls: [made.imageUrl] }),
  }),
  stop('upscale', 'image/upscale', {
    note: '×2',
    body: (made) => ({ imageUrl: made.imageUrl, persistToStorage: true }),
  }),
  stop('cutout', 'image/remove-background', { body: (made) => ({ imageUrl: made.imageUrl }) }),
  stop('batch', 'image/batch', {
    note: 'two cut-outs',
    body: ({ imageUrl }) => ({ operation: 'remove-background', imageUrls: [imageUrl, imageUrl] }),
  }),
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
  stop('voiceover', 'voiceover/generate', {
    body: () => ({ title: 'Harbour light', text: light }),
    keep: (made, data) => ([made.voiceUrl] = mediaUrls(data)),
  }),
  stop('dialogue', 'dialogue/generate', { body: () => ({ title: 'At the pier', inputs: pier }) }),
  stop('music-plan', 'music/plan', {
    body: () => ({ prompt: shanty, music_length_ms: 12_000 }),
    keep: (made, data) => (made.plan = data),
  }),
  stop('music', 'music/generate', {
    note: 'from the plan',
    body: (made) => ({ prompt: shanty, composition_plan: made.plan }),
  }),
  stop('music-audio-only', 'music/generate', {
    note: 'audio only',
    body: () => ({ prompt: 'rain on a tin roof', durationSeconds: 8, mode: 'audio-only' }),
  }),
  stop('sfx', 'sfx/generate', { body: () => ({ prompt: 'a foghorn far away' }) }),
  stop('transcript', 'audio/transcribe', {
    note: 'by URL',
    body: (made) => ({ audioUrl: made.voiceUrl }),
  }),
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
  stop('video', 'video/generate', {
    body: (made) => ({
      prompt: 'waves roll against the pier',
      model: 'seedance-2.0',
      imageUrl: made.imageUrl,
    }),
    keep: (made, data) => ([made.videoUrl] = mediaUrls(data)),
  }),
  stop('video-upscale', 'video/upscale', { body: (made) => ({ videoUrl: made.videoUrl }) }),
  stop('video-cutout', 'video/remove-background', {
    body: (made) => ({ videoUrl: made.videoUrl }),
  }),
];

/** Returns the URLs of the delivered files, each once; `metadata` may contain URLs of inputs. */
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
