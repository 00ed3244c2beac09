/**
 * Requests of the gateway to providers and responses of the sandbox have the types that the vendors
 * publish: the bodies are written to a TypeScript file with the types of their endpoints, and the
 * compiler checks it.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { during } from '../../harness/during.ts';
import { drawDisc, makeFilm, makeSpeech } from '../../harness/media.ts';
import { recordTone } from '../../harness/recordings.ts';
import { startMediaServer } from '../../harness/media-server.ts';
import { useSandbox } from '../../harness/sandbox.ts';
import { until } from '../../harness/until.ts';
import { elevenLabsModules } from './elevenlabs.ts';
import { plannedBodies, type PlannedBody } from './planned-bodies.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

const prelude = `
import type { EndpointTypeMap } from '@fal-ai/client/endpoints';
import type OpenAI from 'openai';
import type { ElevenLabs } from '@elevenlabs/elevenlabs-js';
import type * as raw from '@elevenlabs/elevenlabs-js/serialization/index.js';

type Fal<Endpoint extends keyof EndpointTypeMap> = EndpointTypeMap[Endpoint];
/** The form contains the pictures as files. */
type Edit = Omit<OpenAI.Images.ImageEditParamsNonStreaming, 'image' | 'mask'> & { image_urls: string[]; mask_url?: string };
/** Fields of forms have the names of the HTTP API. */
type Snake<Name> = Name extends \`\${infer Head}\${infer Tail}\`
  ? \`\${Head extends Uppercase<Head> ? (Head extends Lowercase<Head> ? Head : \`_\${Lowercase<Head>}\`) : Head}\${Snake<Tail>}\`
  : '';
type SnakeFields<Fields> = { [Name in keyof Fields as Snake<Name>]: Fields[Name] };
type Transcription = SnakeFields<Omit<ElevenLabs.BodySpeechToTextV1SpeechToTextPost, 'file'>>;
`;

const speech = 'raw.BodyTextToSpeechFull.Raw & { voice_id: string }';
/** Types of the endpoints whose names are no types of the vendor. */
const bodyTypes: Record<string, string> = {
  'openai images/generations': 'OpenAI.Images.ImageGenerateParamsNonStreaming',
  'openai images/edits': 'Edit',
  'elevenlabs text-to-speech': speech,
  'elevenlabs text-to-dialogue': 'raw.BodyTextToDialogueMultiVoiceV1TextToDialoguePost.Raw',
  'elevenlabs sound-generation': 'raw.CreateSoundEffectRequest.Raw',
  'elevenlabs music': 'raw.BodyComposeMusicV1MusicPost.Raw',
  'elevenlabs music/detailed': 'raw.BodyComposeMusicWithADetailedResponseV1MusicDetailedPost.Raw',
  'elevenlabs music/plan': 'raw.music.BodyGenerateCompositionPlanV1MusicPlanPost.Raw',
  'elevenlabs speech-to-text': 'Transcription',
};

function findType({ provider, endpoint }: PlannedBody): string {
  const type = provider === 'fal' ? `Fal<'${endpoint}'>['input']` : undefined;
  return type ?? bodyTypes[`${provider} ${endpoint}`] ?? `'no type of ${provider} ${endpoint}'`;
}

/** Compiles values of types; returns the errors of the compiler. */
async function findTypeErrors(values: { type: string; value: unknown }[]): Promise<string[]> {
  // The compiler finds the other vendors' packages in the project, above this folder.
  const directory = await mkdtemp(join(dirname(await elevenLabsModules()), 'vendor-types-'));
  const lines = values.map(({ type, value }) => `(${JSON.stringify(value)}) satisfies ${type};`);
  const options = { noEmit: true, strict: true, skipLibCheck: true, types: [] };
  const modules = { module: 'nodenext', target: 'esnext', lib: ['esnext', 'dom'] };
  const config = { compilerOptions: { ...options, ...modules }, files: ['values.ts'] };
  try {
    await writeFile(join(directory, 'package.json'), '{"type": "module"}');
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config));
    await writeFile(join(directory, 'values.ts'), `${prelude}${lines.join('\n')}\n`);
    const compiler = join(root, 'node_modules', '.bin', 'tsc');
    const output = await new Promise<string>((resolve) => {
      execFile(compiler, ['-p', directory, '--pretty', 'false'], (_error, stdout, stderr) =>
        resolve(stdout + stderr),
      );
    });
    return output.split('\n').filter((line) => line !== '');
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Endpoints that the newest client of fal (1.10.1) does not know; they were taken from fal's pages (docs/providers.md). */
const unpublished = [
  'bytedance/seedance-2.0/image-to-video',
  'bytedance/seedance-2.0/reference-to-video',
  'bytedance/seedance-2.0/text-to-video',
  'bytedance/seedance-2.5/image-to-video',
  'bytedance/seedance-2.5/reference-to-video',
  'bytedance/seedance-2.5/text-to-video',
  'openai/gpt-image-2',
  'openai/gpt-image-2.5/flare/edit',
  'openai/gpt-image-2.5/flare/text-to-image',
  'openai/gpt-image-2.5/sunburst/edit',
  'openai/gpt-image-2.5/sunburst/text-to-image',
  'openai/gpt-image-2/edit',
];
const isPublished = ({ endpoint }: PlannedBody): boolean => !unpublished.includes(endpoint);

it('the gateway sends bodies of the types that fal, OpenAI and ElevenLabs publish, for every model and route', async () => {
  const bodies = plannedBodies();
  expect(bodies.length).toBeGreaterThan(500);
  const values = bodies
    .filter(isPublished)
    .map((body) => ({ type: findType(body), value: body.input }));
  const stillUnpublished = unpublished.map((value) => ({
    type: `Exclude<'${value}', keyof EndpointTypeMap>`,
    value,
  }));
  expect(await findTypeErrors([...values, ...stillUnpublished])).toEqual([]);
  const endpoints = new Set(
    bodies.filter((body) => !isPublished(body)).map((body) => body.endpoint),
  );
  expect([...endpoints].toSorted()).toEqual(unpublished);
});

describe('the sandbox', () => {
  const media = during(startMediaServer);
  const sandbox = useSandbox({ SANDBOX_TINY_MEDIA: '1', SANDBOX_LATENCY_MS: '1' });

  /** Returns the body with inputs that the sandbox can read. */
  async function readable(input: object): Promise<object> {
    const picture = media.put('/a.png', await drawDisc(320, 200));
    const video = media.put('/film.mp4', await makeFilm());
    const sound = media.put('/voice.mp3', Buffer.from(await recordTone(1)));
    return JSON.parse(
      JSON.stringify(input)
        .replaceAll(/https:\/\/example\.com\/[\w.-]+\.png/g, picture)
        .replaceAll(/https:\/\/example\.com\/[\w.-]+\.mp4/g, video)
        .replaceAll(/https:\/\/example\.com\/[\w.-]+\.mp3/g, sound),
    ) as object;
  }
  async function send(path: string, headers: Record<string, string>, body?: unknown) {
    const url = new URL(path, sandbox.url);
    const isForm = body instanceof FormData;
    const answer = await fetch(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...headers, ...(!isForm && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
    });
    const parsed = (await answer.json()) as Record<string, string>;
    expect(answer.ok, JSON.stringify(parsed)).toBe(true);
    return parsed;
  }
  /** Submits a request to the queue of fal; returns its result. */
  async function fetchResult(endpoint: string, input: object): Promise<unknown> {
    const headers = { authorization: `Key ${sandbox.falKey}` };
    const { status_url: statusUrl = '', response_url: responseUrl = '' } = await send(
      `/fal/queue/${endpoint}`,
      headers,
      await readable(input),
    );
    await until(async () => (await send(statusUrl, headers))['status'] === 'COMPLETED');
    return send(responseUrl, headers);
  }

  it('responds with the types that fal publishes', async () => {
    const bodies = plannedBodies().filter((body) => body.provider === 'fal' && isPublished(body));
    const values = await Promise.all(
      Object.entries(Object.groupBy(bodies, ({ endpoint }) => endpoint)).map(
        async ([endpoint, same]) => {
          const value = await fetchResult(endpoint, same?.[0]?.input ?? {});
          return { type: `Fal<'${endpoint}'>['output']`, value };
        },
      ),
    );
    expect(values.length).toBeGreaterThan(15);
    expect(await findTypeErrors(values)).toEqual([]);
  });

  it('responds with the types that OpenAI and ElevenLabs publish', async () => {
    const find = (endpoint: string) =>
      plannedBodies().find((body) => body.endpoint === endpoint)?.input;
    const openai = { authorization: `Bearer ${sandbox.openaiKey}` };
    const elevenlabs = { 'xi-api-key': sandbox.elevenlabsKey };
    const music = '/elevenlabs/v1/music/plan';
    const form = new FormData();
    form.set('model_id', 'scribe_v2');
    form.set('file', new Blob([await makeSpeech(2)]), 'a.mp3');
    const transcript = await send('/elevenlabs/v1/speech-to-text', elevenlabs, form);
    expect(
      await findTypeErrors([
        {
          type: 'OpenAI.Images.ImagesResponse',
          value: await send('/openai/v1/images/generations', openai, find('images/generations')),
        },
        { type: 'raw.MusicPrompt.Raw', value: await send(music, elevenlabs, find('music/plan')) },
        { type: 'raw.SpeechToTextChunkResponseModel.Raw', value: transcript },
      ]),
    ).toEqual([]);
  });
});
