/**
 * The storage quota of an organization: a limit on its bytes under simultaneous requests, one
 * sender per URL, and removal of files that no request uses and of files in rejected requests.
 */
import { readdir } from 'node:fs/promises';
import { request as httpRequest, type ClientRequest } from 'node:http';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { discPicture } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';

const limit = 1_000_000;
const gateway = useGateway({ env: { UPLOAD_BYTES_MAX: String(limit) }, settled: 'last' });
let caller: TestCaller;
let speech: Uint8Array<ArrayBuffer>;
let picture: Buffer<ArrayBuffer>;
beforeAll(async () => {
  speech = await recordTone(8);
  picture = Buffer.from(await discPicture(64, 64));
});
beforeEach(async () => {
  caller = await gateway.newCaller({ credits: 100 });
});

interface UploadUrl {
  fileId: string;
  uploadUrl: string;
  headers: Record<string, string>;
  error: string;
}
interface Quota {
  storage: { limit: number; used: number; remaining: number };
}

const uploadUrl = (body: object, { key } = caller) =>
  gateway.call<UploadUrl>('/api/v1/storage/upload-url', { method: 'POST', body, key });
const quota = async ({ key } = caller) =>
  (await gateway.call<Quota>('/api/v1/usage', { key })).body.storage;
const sweep = () => gateway.api.services.uploads.sweep();
const put = (signed: UploadUrl, body: Buffer<ArrayBuffer>) =>
  fetch(signed.uploadUrl, { method: 'PUT', headers: signed.headers, body });

/** Lists the stored files of the organization. */
async function stored({ organizationId } = caller): Promise<string[]> {
  const directory = join(gateway.config.STORAGE_DIR, 'objects', organizationId);
  return readdir(directory, { recursive: true }).catch(() => []);
}

describe('the stored bytes of an organization', () => {
  it('are limited and reported, also under simultaneous requests', async () => {
    expect(await quota()).toEqual({ limit, used: 0, remaining: limit });
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => uploadUrl({ filename: 'a.png', size: 100_000 })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    const rejected = answers.filter(({ status }) => status !== 200);
    for (const { status, body } of rejected) {
      expect({ status, error: body.error }).toEqual({
        status: 403,
        error: 'STORAGE_QUOTA_EXCEEDED',
      });
    }
    expect(await quota()).toEqual({ limit, used: limit, remaining: 0 });
    const other = await gateway.newCaller({ credits: 0 });
    expect(await uploadUrl({ size: 10, filename: 'a.png' }, other)).toMatchObject({ status: 200 });
    // A URL without a size reserves the maximum size of its type.
    expect(await uploadUrl({ filename: 'a.png' }, other)).toMatchObject({ status: 403 });
  });

  it('are the received bytes of a file, and 0 for a file that never arrived', async () => {
    const file = (await uploadUrl({ filename: 'a.png', size: picture.length })).body;
    const never = (await uploadUrl({ filename: 'a.png', size: 500_000 })).body;
    expect((await put(file, picture)).status).toBe(200);
    expect((await quota()).used).toBe(picture.length + 500_000);
    await gateway.database.query(
      `UPDATE upload SET expires_at = now() - interval '2 hours' WHERE id = $1`,
      [never.fileId],
    );
    await sweep();
    expect((await quota()).used).toBe(picture.length);
  });

  it('are freed when no request used a file for long, and kept when one did', async () => {
    const bring = async () => {
      const signed = (await uploadUrl({ filename: 'a.png', size: picture.length })).body;
      expect((await put(signed, picture)).status).toBe(200);
      return signed.fileId;
    };
    const [unused, used] = [await bring(), await bring()];
    await gateway.database.query(
      `UPDATE upload SET completed_at = now() - interval '31 days' WHERE organization_id = $1`,
      [caller.organizationId],
    );
    const edit = (imageUrl: string) =>
      gateway.call('/api/v1/studio/image/remove-background', {
        body: { imageUrl },
        key: caller.key,
      });
    expect(await edit(used)).toMatchObject({ status: 200 });
    await sweep();
    expect((await stored()).filter((name) => name.startsWith('file_'))).toEqual([`${used}.png`]);
    expect((await quota()).used).toBe(picture.length);
    expect(await edit(unused)).toMatchObject({ status: 400, body: { error: 'INVALID_INPUT_URL' } });
    expect(await edit(used)).toMatchObject({ status: 200 });
  });
});

describe('an upload URL', () => {
  /** A PUT that sends a byte and waits. */
  async function begin({ fileId, uploadUrl: url, headers }: UploadUrl): Promise<ClientRequest> {
    const request = httpRequest(url, {
      method: 'PUT',
      agent: false,
      headers: { ...headers, 'content-length': picture.length },
    });
    request.on('error', () => {});
    request.write(Buffer.from([0x89]));
    const receiving = () =>
      gateway.database.query(
        'SELECT FROM upload WHERE id = $1 AND receiving_until > clock_timestamp()',
        [fileId],
      );
    await expect.poll(receiving).toHaveLength(1);
    return request;
  }

  it('accepts one sender at a time', async () => {
    const signed = (await uploadUrl({ filename: 'a.png', size: picture.length })).body;
    const first = await begin(signed);
    const second = await put(signed, picture);
    expect({ status: second.status, body: await second.json() }).toMatchObject({
      status: 409,
      body: { error: 'UPLOAD_IN_PROGRESS' },
    });
    expect(second.headers.get('retry-after')).toBe('5');
    // After a sender disconnects, the next sender can start at once.
    first.destroy();
    await expect.poll(async () => (await put(signed, picture)).status).toBe(200);
  });
});

describe('a recording in its request', () => {
  interface Transcription {
    error: string;
    data: { jobId: string };
  }
  async function transcribe(fields: Record<string, string> = {}, headers = {}, { key } = caller) {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.append(field, value);
    form.append('file', new Blob([speech]), 'talk.mp3');
    const answer = await fetch(`${gateway.url}/api/v1/studio/audio/transcribe`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, ...headers },
      body: form,
    });
    return { status: answer.status, body: (await answer.json()) as Transcription };
  }
  const files = async (of = caller) =>
    (await stored(of)).filter((name) => name.startsWith('file_'));

  it('counts towards the quota, and is kept for its job', async () => {
    expect(await transcribe()).toMatchObject({ status: 200 });
    expect(await files()).toHaveLength(1);
    expect((await quota()).used).toBe(speech.length);
  });

  it('is removed when the request is rejected for any reason', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    expect(await transcribe({}, {}, poor)).toMatchObject({ status: 402 });
    await expect.poll(() => files(poor)).toEqual([]);
    expect((await quota(poor)).used).toBe(0);
    expect(await transcribe({ language: 'not a language' })).toMatchObject({ status: 400 });
    expect(await transcribe({ fileId: 'file_1' })).toMatchObject({ status: 400 });
    expect(await transcribe({}, { 'idempotency-key': 'x'.repeat(300) })).toMatchObject({
      status: 400,
    });
    await expect.poll(() => files()).toEqual([]);
    expect((await quota()).used).toBe(0);
  });

  it('is stored once for all repeats of its request', async () => {
    const headers = { 'idempotency-key': 'the-same' };
    const first = await transcribe({ async: 'true' }, headers);
    const again = await transcribe({ async: 'true' }, headers);
    expect(again.body.data.jobId).toBe(first.body.data.jobId);
    await gateway.untilDone(first.body.data.jobId, caller.key);
    await expect.poll(() => files()).toHaveLength(1);
    expect((await quota()).used).toBe(speech.length);
  });

  it('is rejected when the quota is used up', async () => {
    await uploadUrl({ filename: 'a.png', size: limit });
    expect(await transcribe()).toMatchObject({
      status: 403,
      body: { error: 'STORAGE_QUOTA_EXCEEDED' },
    });
    expect(await files()).toEqual([]);
  });
});
