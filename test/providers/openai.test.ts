/** An edit at OpenAI that is not sent: it may be sent again, and leaves no file behind. */
import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { Config } from '../../platform/config.ts';
import { OutboundError, createOutbound } from '../../platform/outbound.ts';
import openai from '../../providers/openai/index.ts';
import type { Storage } from '../../storage/storage.ts';
import { drawDisc } from '../harness/media.ts';

it.each([
  ['fails inside the gateway', () => Promise.reject(new Error('ENOSPC'))],
  ['finds no directory for its files', null],
  ['needs a busy server', () => Promise.reject(new OutboundError('status', 'busy', 503))],
  ['does not reach the provider', async () => Readable.from([await drawDisc(8, 8)])],
])('an edit that %s is not accepted, and leaves no file behind', async (_how, fetch) => {
  const directory = await mkdtemp(join(tmpdir(), 'edits-'));
  vi.stubEnv('TMPDIR', fetch ? directory : join(directory, 'missing'));
  onTestFinished(() => void vi.unstubAllEnvs());
  const variables = {
    OPENAI_IMAGES_API_KEY: 'a-secret',
    OPENAI_IMAGES_BASE_URL: 'http://127.0.0.1:1',
  };
  const provider = openai.create({ PROVIDER_VARIABLES: variables } as unknown as Config, {
    outbound: { ...createOutbound({ admittedOrigins: [] }), ...(fetch && { fetch }) },
    storage: {} as Storage,
  });
  const submission = {
    providerEndpoint: 'images/edits',
    input: { image_urls: ['https://files.example/a.png'], prompt: 'a tree' },
    notificationUrl: '',
    idempotencyKey: 'key',
    signal: AbortSignal.timeout(10_000),
  };
  await expect(provider.submit(submission)).rejects.toMatchObject({ kind: 'not_accepted' });
  expect(await readdir(directory)).toEqual([]);
});
