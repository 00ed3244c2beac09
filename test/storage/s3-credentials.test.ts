/**
 * Credentials that AWS issues to the process, read from a server that speaks its protocols, and
 * used at a real S3 server.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { findS3Server, startS3Server, type S3Server } from '../../dev/stack/s3-server.ts';
import { newId } from '../../domain/ids.ts';
import { createAwsCredentials, openS3 } from '../../storage/s3.ts';
import { newFolder } from '../harness/folders.ts';
import { containerPath, roleArn, startAwsEndpoints, tokens } from './aws-endpoints.ts';

const account = { accessKeyId: 'test-access-key', secretAccessKey: 'x'.repeat(32) };
const executable = await findS3Server();

const directory = newFolder();
let aws: Awaited<ReturnType<typeof startAwsEndpoints>>;
let s3: S3Server | undefined;
beforeAll(async () => {
  s3 = executable ? await startS3Server(executable) : undefined;
});
afterAll(() => s3?.stop());
beforeEach(async () => {
  aws = await startAwsEndpoints(s3 ?? account);
  // Neither files nor variables of this machine.
  vi.stubEnv('AWS_CONFIG_FILE', join(directory, 'none'));
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(directory, 'none'));
  vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', 'http://127.0.0.1:1');
});
afterEach(() => {
  vi.unstubAllEnvs();
  aws.close();
});

const file = async (name: string, content: string): Promise<string> => {
  const path = join(directory, name);
  await writeFile(path, content);
  return path;
};

/** Environments of a process, by the source of its credentials. */
const environments: Record<string, () => Promise<Record<string, string>>> = {
  sts: async () => ({
    AWS_ROLE_ARN: roleArn,
    AWS_WEB_IDENTITY_TOKEN_FILE: await file('web', tokens.web),
    AWS_ENDPOINT_URL_STS: aws.url,
  }),
  container: async () => ({
    AWS_CONTAINER_CREDENTIALS_FULL_URI: aws.url + containerPath,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: await file('container', tokens.container),
  }),
  imds: () => Promise.resolve({ AWS_EC2_METADATA_SERVICE_ENDPOINT: aws.url }),
};

async function useSource(source: string): Promise<void> {
  for (const [name, value] of Object.entries((await environments[source]?.()) ?? {})) {
    vi.stubEnv(name, value);
  }
}

describe.skipIf(!executable).each(Object.keys(environments))('credentials of %s', (source) => {
  it('store and read an object, and are requested once', async () => {
    if (!s3) throw new Error('no S3 server');
    await useSource(source);
    const storage = await openS3({
      ...s3,
      readCredentials: await createAwsCredentials(s3.region),
      spoolDirectory: directory,
    });
    const key = `${newId('organization')}/${newId('upload')}.png`;
    await storage.put(key, await file('object', 'bytes'));
    const object = await storage.open(key);
    expect(object && (await buffer(object.stream)).toString()).toBe('bytes');
    const url = await storage.urlOf(key, 60_000);
    expect(new URL(url).searchParams.get('X-Amz-Security-Token')).toBe('session-1');
    expect(await (await fetch(url)).text()).toBe('bytes');
    expect(aws.issued).toEqual([source]);
  });
});

describe('issued credentials', () => {
  it('are read from the variables of AWS', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'id');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'key');
    vi.stubEnv('AWS_SESSION_TOKEN', 'token');
    const read = await createAwsCredentials('eu-central-1');
    const issued = { accessKeyId: 'id', secretAccessKey: 'key', sessionToken: 'token' };
    expect(await read()).toMatchObject(issued);
  });

  it('are replaced before they expire, without a wait', async () => {
    await useSource('container');
    const read = await createAwsCredentials('eu-central-1');
    aws.state.lifetimeMs = 200_000;
    for (const _ of [1, 2]) expect(await read()).toMatchObject({ sessionToken: 'session-1' });
    await vi.waitFor(async () => {
      expect(await read()).toMatchObject({ sessionToken: 'session-2' });
    });
  });

  it('are used until they expire while their source is away', async () => {
    await useSource('sts');
    const read = await createAwsCredentials('eu-central-1');
    aws.state.lifetimeMs = 200_000;
    await read();
    aws.state.isAway = true;
    await read();
    await sleep(300);
    expect(await read()).toMatchObject({ sessionToken: 'session-1' });
  });

  it('limit the life of an upload URL', async () => {
    await useSource('sts');
    aws.state.lifetimeMs = 120_000;
    const storage = await openS3({
      endpoint: 'https://s3.example',
      bucket: 'media',
      region: 'eu-central-1',
      readCredentials: await createAwsCredentials('eu-central-1'),
      spoolDirectory: directory,
    });
    const key = `${newId('organization')}/${newId('upload')}.png`;
    const { expiresAtMs } = await storage.signUpload({ key, sizeBytes: 1, ttlMs: 600_000 });
    expect(expiresAtMs - Date.now()).toBeLessThanOrEqual(120_000);
    expect(expiresAtMs - Date.now()).toBeGreaterThan(110_000);
  });

  it.each(['sts', 'container', 'imds'])('fail with one sentence without %s', async (source) => {
    await useSource(source);
    aws.state.isAway = true;
    const read = await createAwsCredentials('eu-central-1');
    const error: unknown = await read().catch((reason: unknown) => reason);
    expect(String(error)).toMatch(
      /^Error: the AWS credentials for the storage cannot be read: \S.*$/,
    );
    for (const token of Object.values(tokens)) expect(String(error)).not.toContain(token);
  });
});
