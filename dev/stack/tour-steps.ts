/** Steps of `npm run demo`. Each step can use the results of earlier steps. */

/** Results of earlier steps. */
export interface EarlierResults {
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

/** Function that calls the API with the demo key. */
export type Call = (path: string, init?: RequestInit) => Promise<{ body: Data }>;

/** Step of the demo. */
export interface TourStep {
  /** Name of the saved files, without a number and an extension. */
  name: string;
  title: string;
  request: (made: EarlierResults, call: Call) => TourRequest | Promise<TourRequest>;
  /** Stores results that later steps use. */
  keep?: (made: EarlierResults, data: Data) => void;
}

const post = (path: string, body: object): TourRequest => ({
  path: `/api/v1/studio/${path}`,
  init: { method: 'POST', body: JSON.stringify(body) },
});

/** Returns a step that posts JSON. Its title is the path and the note. */
function jsonStep(
  name: string,
  path: string,
  {
    note,
    body,
    keep,
  }: { note?: string; body: (made: EarlierResults) => object; keep?: TourStep['keep'] },
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

/** All steps, in order. */
export const tourSteps: readonly TourStep[] = [
  jsonStep('image', 'image/generate', {
    body: () => ({ prompt: 'a lighthouse at dawn', aspectRatio: '16:9' }),
    keep: (made, data) => ([made.imageUrl] = mediaUrls(data)),
  }),
  jsonStep('image-transparent', 'image/generate', { note: 'transparent WebP', body: () => boat }),
  jsonStep('edit', 'image/edit', {
    body: (made) => ({ prompt: 'make it night, with a full moon', imageUrls: [made.imageUrl] }),
  }),
  jsonStep('upscale', 'image/upscale', {
    note: '×2',
    body: (made) => ({ imageUrl: made.imageUrl, persistToStorage: true }),
  }),
  jsonStep('cutout', 'image/remove-background', { body: (made) => ({ imageUrl: made.imageUrl }) }),
  jsonStep('batch', 'image/batch', {
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
  jsonStep('voiceover', 'voiceover/generate', {
    body: () => ({ title: 'Harbour light', text: light }),
    keep: (made, data) => ([made.voiceUrl] = mediaUrls(data)),
  }),
  jsonStep('dialogue', 'dialogue/generate', {
    body: () => ({ title: 'At the pier', inputs: pier }),
  }),
  jsonStep('music-plan', 'music/plan', {
    body: () => ({ prompt: shanty, music_length_ms: 12_000 }),
    keep: (made, data) => (made.plan = data),
  }),
  jsonStep('music', 'music/generate', {
    note: 'from the plan',
    body: (made) => ({ prompt: shanty, composition_plan: made.plan }),
  }),
  jsonStep('music-audio-only', 'music/generate', {
    note: 'audio only',
    body: () => ({ prompt: 'rain on a tin roof', durationSeconds: 8, mode: 'audio-only' }),
  }),
  jsonStep('sfx', 'sfx/generate', { body: () => ({ prompt: 'a foghorn far away' }) }),
  jsonStep('transcript', 'audio/transcribe', {
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
  jsonStep('video', 'video/generate', {
    body: (made) => ({
      prompt: 'waves roll against the pier',
      model: 'seedance-2.0',
      imageUrl: made.imageUrl,
    }),
    keep: (made, data) => ([made.videoUrl] = mediaUrls(data)),
  }),
  jsonStep('video-upscale', 'video/upscale', { body: (made) => ({ videoUrl: made.videoUrl }) }),
  jsonStep('video-cutout', 'video/remove-background', {
    body: (made) => ({ videoUrl: made.videoUrl }),
  }),
];

/** Returns the URLs of the result files, each once. Skips `metadata`, which may name input files. */
export function mediaUrls(value: unknown): string[] {
  const byFile = new Map(findUrls(value).map((url) => [new URL(url).pathname, url]));
  return [...byFile.values()];
}

function findUrls(value: unknown): string[] {
  if (typeof value === 'string') return /^https?:\/\//.test(value) ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([field, inner]) =>
    field === 'metadata' ? [] : findUrls(inner),
  );
}
