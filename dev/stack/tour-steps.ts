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
  request: (earlier: EarlierResults, call: Call) => TourRequest | Promise<TourRequest>;
  /** Stores results that later steps use. */
  storeResult?: (earlier: EarlierResults, data: Data) => void;
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
    storeResult,
  }: {
    note?: string;
    body: (earlier: EarlierResults) => object;
    storeResult?: TourStep['storeResult'];
  },
): TourStep {
  const title = note === undefined ? path : `${path}, ${note}`;
  return {
    name,
    title,
    request: (earlier) => post(path, body(earlier)),
    ...(storeResult && { storeResult }),
  };
}

const transparentImage = {
  prompt: 'a paper boat',
  model: 'alpha-image-2',
  background: 'transparent',
  outputFormat: 'webp',
};
const musicPrompt = 'a slow sea shanty';
const voiceoverText =
  'The light turns, and the harbour wakes up. Nobody pays for a boat that never sailed.';
const dialogueLines = [
  { text: 'Is this the boat to the island?', voiceId: 'aria' },
  { text: 'It is, and it leaves when the tide does.', voiceId: 'roger' },
];

/** All steps, in order. */
export const tourSteps: readonly TourStep[] = [
  jsonStep('image', 'image/generate', {
    body: () => ({ prompt: 'a lighthouse at dawn', aspectRatio: '16:9' }),
    storeResult: (earlier, data) => ([earlier.imageUrl] = mediaUrls(data)),
  }),
  jsonStep('image-transparent', 'image/generate', {
    note: 'transparent WebP',
    body: () => transparentImage,
  }),
  jsonStep('edit', 'image/edit', {
    body: (earlier) => ({
      prompt: 'make it night, with a full moon',
      imageUrls: [earlier.imageUrl],
    }),
  }),
  jsonStep('upscale', 'image/upscale', {
    note: '×2',
    body: (earlier) => ({ imageUrl: earlier.imageUrl, persistToStorage: true }),
  }),
  jsonStep('cutout', 'image/remove-background', {
    body: (earlier) => ({ imageUrl: earlier.imageUrl }),
  }),
  jsonStep('batch', 'image/batch', {
    note: 'two cut-outs',
    body: ({ imageUrl }) => ({ operation: 'remove-background', imageUrls: [imageUrl, imageUrl] }),
  }),
  {
    name: 'uploaded',
    title: 'storage/upload-url, then a cut-out',
    async request(earlier, call) {
      const picture = await (await fetch(earlier.imageUrl ?? '')).arrayBuffer();
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
    body: () => ({ title: 'Harbour light', text: voiceoverText }),
    storeResult: (earlier, data) => ([earlier.voiceUrl] = mediaUrls(data)),
  }),
  jsonStep('dialogue', 'dialogue/generate', {
    body: () => ({ title: 'At the pier', inputs: dialogueLines }),
  }),
  jsonStep('music-plan', 'music/plan', {
    body: () => ({ prompt: musicPrompt, music_length_ms: 12_000 }),
    storeResult: (earlier, data) => (earlier.plan = data),
  }),
  jsonStep('music', 'music/generate', {
    note: 'from the plan',
    body: (earlier) => ({ prompt: musicPrompt, composition_plan: earlier.plan }),
  }),
  jsonStep('music-audio-only', 'music/generate', {
    note: 'audio only',
    body: () => ({ prompt: 'rain on a tin roof', durationSeconds: 8, mode: 'audio-only' }),
  }),
  jsonStep('sfx', 'sfx/generate', { body: () => ({ prompt: 'a foghorn far away' }) }),
  jsonStep('transcript', 'audio/transcribe', {
    note: 'by URL',
    body: (earlier) => ({ audioUrl: earlier.voiceUrl }),
  }),
  {
    name: 'transcript-upload',
    title: 'audio/transcribe, uploaded',
    request: async (earlier) => {
      const file = await (await fetch(earlier.voiceUrl ?? '')).blob();
      const body = new FormData();
      body.set('file', new File([file], 'voice.mp3', { type: 'audio/mpeg' }));
      return { path: '/api/v1/studio/audio/transcribe', init: { method: 'POST', body } };
    },
  },
  jsonStep('video', 'video/generate', {
    body: (earlier) => ({
      prompt: 'waves roll against the pier',
      model: 'seedance-2.0',
      imageUrl: earlier.imageUrl,
    }),
    storeResult: (earlier, data) => ([earlier.videoUrl] = mediaUrls(data)),
  }),
  jsonStep('video-upscale', 'video/upscale', {
    body: (earlier) => ({ videoUrl: earlier.videoUrl }),
  }),
  jsonStep('video-cutout', 'video/remove-background', {
    body: (earlier) => ({ videoUrl: earlier.videoUrl }),
  }),
  jsonStep('video-merge', 'video/merge', {
    note: 'twice, with a voice',
    body: ({ videoUrl, voiceUrl }) => ({ videoUrls: [videoUrl, videoUrl], audioUrl: voiceUrl }),
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
