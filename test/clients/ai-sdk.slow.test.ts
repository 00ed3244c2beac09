/** The provider for the AI SDK, packed and installed, with the SDK's own functions and a gateway. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as AiSdk from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type * as Library from '../../clients/ai-sdk/index.ts';
import { root, run } from '../../dev/clients/tools.ts';
import { useGateway } from '../harness/gateway.ts';
import { drawDisc, makeSpeech, readFilm } from '../harness/media.ts';
import { until } from '../harness/until.ts';
import { installAiSdk, useInstallation } from './installed.ts';

const gateway = useGateway({ settled: 'last' });
const installation = useInstallation('ai-sdk', installAiSdk);
/** The SDK and the provider as their users import them. */
let ai: typeof AiSdk;
let studio: Library.StudioProvider;
let createStudio: typeof Library.createStudio;

beforeAll(async () => {
  const load = (path: string) =>
    import(pathToFileURL(join(installation.place, 'node_modules', path)).href);
  ai = await load('ai/dist/index.js');
  ({ createStudio } = await load('studio-gateway-ai-sdk/dist/index.js'));
  studio = newProvider();
  globalThis.AI_SDK_LOG_WARNINGS = false;
});

const newProvider = (settings: Partial<Library.StudioSettings> = {}) =>
  createStudio({ baseURL: gateway.url, apiKey: gateway.caller.key, ...settings });

const readJob = async (jobId: unknown) => {
  if (typeof jobId !== 'string') throw new Error('the metadata has no job id');
  return studio.client.job({ jobId });
};

/** Returns a fetch that loses the responses to the first requests whose URL ends with `path`. */
function loseResponses(path: string, count: number) {
  const keys: (string | null)[] = [];
  const forgetful: typeof fetch = async (url, init) => {
    const answer = await fetch(url, init);
    if (!answer.url.endsWith(path)) return answer;
    keys.push(new Headers(init?.headers).get('idempotency-key'));
    if (keys.length <= count) throw new TypeError('the connection broke');
    return answer;
  };
  return { forgetful, keys };
}

describe('images', () => {
  it('are generated with typed options, and say their price and origin', async () => {
    const { images, providerMetadata, warnings } = await ai.generateImage({
      model: studio.imageModel('nano-banana-pro'),
      prompt: 'a lighthouse',
      n: 2,
      aspectRatio: '16:9',
      size: '1024x1024',
      seed: 5,
      providerOptions: { studio: { resolution: '1K', metadata: { campaign: 'harbour' } } },
    });
    expect(images.map(({ mediaType }) => mediaType)).toEqual(['image/png', 'image/png']);
    const { images: described } = Object(providerMetadata['studio']);
    expect(described).toMatchObject([
      { contentCredentials: expect.any(String), url: expect.any(String) },
      {},
    ]);
    const [{ jobId, credits }] = described;
    expect(images[1]?.providerMetadata).toMatchObject({ studio: { jobId, credits } });
    expect(await readJob(jobId)).toMatchObject({
      status: 'completed',
      billing: { charged: credits * 2 },
      metadata: { campaign: 'harbour' },
    });
    expect(warnings).toEqual([
      { type: 'unsupported', feature: 'size', details: expect.stringContaining('nano-banana-pro') },
    ]);
  });

  it('are edited from bytes and URLs, with a mask', async () => {
    const picture = await drawDisc(200, 150);
    const url = gateway.media.put('/picture.png', picture);
    const { image } = await ai.generateImage({
      model: studio.imageModel('alpha-image-2'),
      prompt: { text: 'a red hat', images: [picture, url], mask: picture },
    });
    expect(image.uint8Array.length).toBeGreaterThan(100);
  });

  it('that are aborted are canceled', async () => {
    const leaving = new AbortController();
    const call = ai.generateImage({
      model: studio.imageModel('nano-banana'),
      prompt: '[[slow:900s]] [[no-webhook]] a slow tree',
      abortSignal: leaving.signal,
      providerOptions: { studio: { metadata: { test: 'aborted' } } },
    });
    const rejected = expect(call).rejects.toThrow('enough');
    const findJob = async () => {
      for await (const job of studio.client.jobs())
        if (job.metadata?.['test'] === 'aborted') return job;
      return null;
    };
    await until(async () => (await findJob()) !== null);
    leaving.abort(new Error('enough'));
    await rejected;
    await until(async () => (await findJob())?.status === 'canceled');
  });

  it('that fail are errors of the SDK, and are not requested again', async () => {
    const failed = ai.generateImage({
      model: studio.imageModel('nano-banana'),
      prompt: '[[fail:422]] a tree',
    });
    await expect(failed).rejects.toMatchObject({
      name: 'AI_APICallError',
      isRetryable: false,
      data: { code: 'PROVIDER_REJECTED_INPUT', jobId: expect.any(String) },
    });
    const unknown = ai.generateImage({ model: studio.imageModel('dall-e'), prompt: 'a tree' });
    await expect(unknown).rejects.toThrow(/No such model: dall-e.*nano-banana/);
    const wrong = ai.generateImage({
      model: studio.imageModel('nano-banana'),
      prompt: 'a tree',
      aspectRatio: '7:1',
    });
    await expect(wrong).rejects.toThrow(/aspectRatio/);
  });

  it('whose responses are lost are charged once', async () => {
    const { forgetful, keys } = loseResponses('/image/generate', 2);
    const { providerMetadata } = await ai.generateImage({
      model: newProvider({ fetch: forgetful }).imageModel('nano-banana'),
      prompt: 'a lost tree',
    });
    expect(new Set(keys).size).toBe(1);
    expect(keys).toHaveLength(3);
    const [{ jobId, credits }] = Object(providerMetadata['studio']).images;
    expect(credits).toBe(3.9);
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });
});

describe('videos', () => {
  const model = 'seedance-2.0';

  it('are waited for, from frames', async () => {
    const picture = await drawDisc(320, 180);
    const { video, providerMetadata, warnings } = await ai.experimental_generateVideo({
      model: studio.videoModel(model),
      prompt: { text: 'waves', image: picture },
      duration: 4,
      resolution: '854x480',
      fps: 24,
    });
    const facts = await readFilm(Buffer.from(video.uint8Array));
    expect(facts.durationSeconds).toBeGreaterThan(0.5);
    expect(warnings).toMatchObject([{ type: 'unsupported', feature: 'fps' }]);
    const { jobId, credits, videos } = providerMetadata['studio'] ?? {};
    expect(videos).toMatchObject([{ contentCredentials: expect.any(String) }]);
    expect(await readJob(jobId)).toMatchObject({ billing: { charged: credits } });
  });

  it('are started and read in two processes; a lost response starts no second one', async () => {
    const { forgetful, keys } = loseResponses('/video/generate', 3);
    const { operation } = await ai
      .experimental_startVideo({
        model: newProvider({ fetch: forgetful }).videoModel(model),
        prompt: 'waves',
        duration: 4,
        headers: { 'idempotency-key': 'film-1' },
        maxRetries: 0,
      })
      .catch(() =>
        // The handle was lost with the response; the same key returns the same job.
        ai.experimental_startVideo({
          model: studio.videoModel(model),
          prompt: 'waves',
          duration: 4,
          headers: { 'idempotency-key': 'film-1' },
        }),
      );
    expect(new Set(keys)).toEqual(new Set(['film-1']));
    expect(operation).toMatchObject({ jobId: expect.any(String), idempotencyKey: 'film-1' });
    const program = `
      import { experimental_getVideoStatus as getVideoStatus } from 'ai';
      import { createStudio } from 'studio-gateway-ai-sdk';
      const studio = createStudio({ baseURL: process.env.BASE, apiKey: process.env.KEY });
      const operation = JSON.parse(process.env.OPERATION);
      for (;;) {
        const state = await getVideoStatus(studio.videoModel('${model}'), { operation });
        if (state.status !== 'pending') {
          const { videos: [video], ...rest } = state;
          console.log(JSON.stringify({ ...rest, bytes: video.data.length }));
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, 200));
      }`;
    await writeFile(join(installation.place, 'status.mjs'), program);
    const { stdout } = await run(process.execPath, ['status.mjs'], {
      cwd: installation.place,
      env: {
        ...process.env,
        BASE: gateway.url,
        KEY: gateway.caller.key,
        OPERATION: JSON.stringify(operation),
      },
    });
    const jobId = String(Object(operation).jobId);
    expect(JSON.parse(stdout)).toMatchObject({
      status: 'completed',
      bytes: expect.any(Number),
      providerMetadata: { studio: { jobId, videos: [{ url: expect.any(String) }] } },
    });
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it('that fail have the state of an error', async () => {
    const started = await ai.experimental_startVideo({
      model: studio.videoModel(model),
      prompt: '[[fail:422]] waves',
      duration: 4,
    });
    await studio.client.wait({ jobId: String(Object(started.operation).jobId) }).catch(() => {});
    const state = await ai.experimental_getVideoStatus(studio.videoModel(model), started);
    expect(state).toMatchObject({
      status: 'error',
      providerMetadata: { studio: { code: 'PROVIDER_REJECTED_INPUT', credits: 0 } },
    });
  });

  it('are polled by the SDK, and reject a handle of something else', async () => {
    const { videos } = await ai.experimental_generateVideo({
      model: studio.videoModel(model),
      prompt: 'waves',
      duration: 4,
      poll: { intervalMs: 100 },
    });
    expect(videos).toHaveLength(1);
    const other = { operation: 'job_1', maxRetries: 0 };
    const state = ai.experimental_getVideoStatus(studio.videoModel(model), other);
    await expect(state).rejects.toThrow(/operation/);
  });
});

describe('sound', () => {
  it('is generated from a text', async () => {
    const { audio, providerMetadata, warnings } = await ai.generateSpeech({
      model: studio.speechModel(),
      text: 'Welcome to the harbour.',
      voice: 'rachel',
      speed: 2,
      providerOptions: { studio: { stability: 0.9 } },
    });
    expect(audio.mediaType).toBe('audio/mpeg');
    expect(warnings).toMatchObject([{ feature: 'speed' }]);
    expect(providerMetadata['studio']).toMatchObject({
      jobId: expect.any(String),
      credits: expect.any(Number),
      contentCredentials: expect.any(String),
    });
  });

  it('is transcribed from bytes', async () => {
    const { text, segments, durationInSeconds, providerMetadata } = await ai.transcribe({
      model: studio.transcriptionModel(),
      audio: await makeSpeech(4),
      providerOptions: { studio: { language: 'en' } },
    });
    expect(text.length).toBeGreaterThan(3);
    expect(durationInSeconds).toBeCloseTo(4, 0);
    expect(segments.map((segment) => segment.text).join(' ')).toContain(text.split(' ')[0]);
    expect(providerMetadata['studio']).toMatchObject({ credits: expect.any(Number) });
  });
});

describe('chats', () => {
  it('run an agent with tools', async () => {
    const agent = new ai.ToolLoopAgent({
      model: studio('gemini-3.5-flash'),
      tools: {
        look_up: ai.tool({
          description: 'Returns the tide of a place.',
          inputSchema: z.object({ place: z.string() }),
          execute: ({ place }) => `high at ${place}`,
        }),
      },
    });
    const { text, steps } = await agent.generate({ prompt: '[[tool-rounds:2]] how is the tide' });
    expect([steps.length, text]).toEqual([3, expect.stringMatching(/high at/)]);
  });

  it('have embeddings', async () => {
    const values = ['a lighthouse', 'a pier', 'the sea'];
    const model = studio.embeddingModel('text-embedding-3-small');
    const { embeddings, usage } = await ai.embedMany({ model, values });
    expect(embeddings.map((vector) => vector.length > 10)).toEqual([true, true, true]);
    expect(usage.tokens).toBeGreaterThan(0);
  });
});

describe('the package', () => {
  it('has less than 15 kB, and few dependencies', async () => {
    const packed = join(installation.place, 'packed', 'studio-gateway-ai-sdk-0.2.0.tgz');
    expect((await stat(packed)).size).toBeLessThan(15_000);
    const folder = join(installation.place, 'node_modules', 'studio-gateway-ai-sdk');
    const { dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    expect(Object.keys(dependencies)).toEqual([
      '@ai-sdk/openai-compatible',
      '@ai-sdk/provider',
      'studio-gateway-client',
    ]);
  });

  it('type-checks strictly', async () => {
    const program = `
      import { createProviderRegistry, generateImage, experimental_generateVideo } from 'ai';
      import { createStudio, type ImageModelId, type StudioProvider } from 'studio-gateway-ai-sdk';
      const studio: StudioProvider = createStudio({ baseURL: 'http://127.0.0.1:4000', apiKey: 'k' });
      const id: ImageModelId = 'nano-banana';
      export const image = generateImage({ model: studio.imageModel(id), prompt: 'x' });
      export const film = experimental_generateVideo({ model: studio.videoModel('veo'), prompt: 'x' });
      export const registry = createProviderRegistry({ studio });
      type Key = NonNullable<Parameters<typeof createStudio>[0]>['apiKey'];
      export const keyIsRequired: undefined extends Key ? false : true = true;`;
    await writeFile(join(installation.place, 'program.mts'), program);
    const flags =
      '--strict --noEmit --exactOptionalPropertyTypes --module nodenext --target es2024';
    const lib = ['--lib', 'es2024,dom,dom.iterable,dom.asynciterable,esnext.asynciterable'];
    const tsc = join(root, 'node_modules', '.bin', 'tsc');
    const args = [
      ...flags.split(' '),
      ...lib,
      '--skipLibCheck',
      '--ignoreConfig',
      '--types',
      'node',
      'program.mts',
    ];
    await run(tsc, args, { cwd: installation.place });
  });
});
