/**
 * The storage quota of an organization: a limit on its bytes under simultaneous requests, one
 * sender per URL, and removal of files that no request uses and of files in rejected requests.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { useGateway, type Answer, type StudioBody, type TestCaller } from '../harness/gateway.ts';
import { command } from '../../platform/database.ts';
import { drawDisc } from '../harness/media.ts';
import { openRequest } from '../harness/raw-requests.ts';
import { recordTone } from '../harness/recordings.ts';
import { untilHolds } from '../harness/until.ts';
import { makeForm, putFile, signUpload, uploadFile } from '../harness/uploads.ts';

const limit = 1_000_000;
const gateway = useGateway({ env: { UPLOAD_BYTES_MAX: String(limit) }, settled: 'last' });
let caller: TestCaller;
let speech: Uint8Array<ArrayBuffer>;
let picture: Buffer;
beforeAll(async () => {
  speech = await recordTone(8);
  picture = await drawDisc(64, 64);
});
beforeEach(async () => {
  caller = await gateway.newCaller({ credits: 100 });
});

const sign = (size: number) => signUpload(gateway, { filename: 'a.png', size }, caller.key);
const uploadPicture = () =>
  uploadFile(gateway, picture, { filename: 'a.png', size: picture.length }, caller.key);
const quota = async ({ key } = caller) =>
  (await gateway.call<{ storage: object }>('/api/v1/usage', { key })).body.storage;
const sweep = () => gateway.api.services.uploads.sweep();

/** Lists the uploaded files of an organization. */
async function listFiles({ organizationId } = caller): Promise<string[]> {
  const directory = join(gateway.config.STORAGE_DIR, 'objects', organizationId);
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  return names.filter((name) => name.startsWith('file_'));
}

describe('the stored bytes of an organization', () => {
  it('are limited and reported, also under simultaneous requests', async () => {
    expect(await quota()).toEqual({ limit, used: 0, remaining: limit });
    const requestUrl = (size: number | undefined, { key } = caller) =>
      gateway.call('/api/v1/storage/upload-url', { key, body: { filename: 'a.png', size } });
    const exceeded = { status: 403, body: { error: 'STORAGE_QUOTA_EXCEEDED' } };
    const answers = await Promise.all(Array.from({ length: 30 }, () => requestUrl(100_000)));
    const rejected = answers.filter(({ status }) => status !== 200);
    expect(rejected).toMatchObject(Array.from({ length: 20 }, () => exceeded));
    expect(await quota()).toEqual({ limit, used: limit, remaining: 0 });
    const other = await gateway.newCaller({ credits: 0 });
    expect(await requestUrl(10, other)).toMatchObject({ status: 200 });
    // A URL without a size reserves the maximum size of its type.
    expect(await requestUrl(undefined, other)).toMatchObject(exceeded);
    // A file may have exactly as many bytes as remain.
    const fill = 'UPDATE organization SET upload_bytes = $2 WHERE id = $1';
    await gateway.database.query(fill, [other.organizationId, limit - picture.length]);
    const body = { imageUrl: `data:image/png;base64,${picture.toString('base64')}` };
    const path = '/api/v1/studio/image/remove-background/estimate';
    expect(await gateway.call(path, { key: other.key, body })).toMatchObject({ status: 200 });
  });

  it('include at most a tenth of an end user with browser tokens, also under simultaneous requests', async () => {
    const { key, organizationId } = caller;
    const made = await gateway.call<{ data: { token: string } }>('/api/v1/end-users/ann/tokens', {
      key,
      body: {},
    });
    const sent: Promise<Answer>[] = [];
    await gateway.api.services.pool.transaction(async (transaction) => {
      await transaction.query(
        command`SELECT FROM organization WHERE id = ${organizationId} FOR UPDATE`,
      );
      const body = { filename: 'a.png', size: limit / 20 };
      const options = { key: made.body.data.token, body };
      for (let index = 0; index < 3; index += 1)
        sent.push(gateway.call('/api/v1/storage/upload-url', options));
      // All of them wait for the organization at the same time.
      await untilHolds(async () => {
        const waiting = await gateway.database.query(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        );
        expect(waiting).toHaveLength(3);
      });
    });
    const answers = await Promise.all(sent);
    const rejected = answers.filter(({ status }) => status !== 200);
    expect(rejected.map(({ body }) => body.error)).toEqual(['STORAGE_QUOTA_EXCEEDED']);
    expect(await quota()).toEqual({ limit, used: limit / 10, remaining: limit * 0.9 });
  });

  it('include copies of inputs by URL until these are removed', async () => {
    const { organizationId, key } = caller;
    const imageUrl = gateway.media.serve('/copied.png', (response) => void response.end(picture));
    const setUsed = (used: number) =>
      gateway.database.query('UPDATE organization SET upload_bytes = $2 WHERE id = $1', [
        organizationId,
        used,
      ]);
    const body = { imageUrl, service: 'service_b' };
    const upscale = (path: string) => gateway.call<StudioBody<object>>(path, { key, body });
    const path = '/api/v1/studio/image/upscale';
    await setUsed(limit - picture.length + 1);
    for (const full of [`${path}/estimate`, path]) {
      expect(await upscale(full)).toMatchObject({
        status: 403,
        body: { error: 'STORAGE_QUOTA_EXCEEDED' },
      });
    }
    await setUsed(0);
    expect((await upscale(`${path}/estimate`)).status).toBe(200);
    expect(await quota()).toMatchObject({ used: 0 });
    expect((await upscale(path)).status).toBe(200);
    expect(await quota()).toMatchObject({ used: picture.length });
    await gateway.api.services.copies.sweep();
    expect(await quota()).toMatchObject({ used: 0 });
  });

  it('of a picture by URL are only its first ones for an estimate', async () => {
    const { key } = caller;
    const size = 24_000_000;
    const large = Buffer.concat([picture, Buffer.alloc(size - picture.length)]);
    const imageUrl = gateway.media.put('/large.png', large);
    const path = '/api/v1/studio/image/upscale/estimate';
    await gateway.send(path, { key, body: { imageUrl, service: 'service_b' } });
    const sentBytes = gateway.media.sentBytes('/large.png');
    expect(sentBytes).toBeGreaterThan(0);
    expect(sentBytes).toBeLessThan(limit);
    expect(await quota()).toMatchObject({ used: 0 });
  });

  it('are the received bytes of a file, and 0 for a file that never arrived', async () => {
    await uploadPicture();
    const never = await sign(500_000);
    expect(await quota()).toMatchObject({ used: picture.length + 500_000 });
    await gateway.database.query(
      `UPDATE upload SET expires_at = now() - interval '2 hours' WHERE id = $1`,
      [never.fileId],
    );
    await sweep();
    expect(await quota()).toMatchObject({ used: picture.length });
  });

  it('are freed when no request used a file for long, and kept when one did', async () => {
    const files = [await uploadPicture(), await uploadPicture(), await uploadPicture()];
    const [unused, used, usedLate] = files.map(({ fileId }) => fileId) as [string, string, string];
    await gateway.database.query(
      `UPDATE upload SET completed_at = now() - interval '31 days',
        used_at = CASE id WHEN $2 THEN now() - interval '31 days' END WHERE organization_id = $1`,
      [caller.organizationId, used],
    );
    const path = '/api/v1/studio/image/remove-background';
    const edit = (imageUrl: string) => gateway.call(path, { body: { imageUrl }, key: caller.key });
    expect(await edit(used)).toMatchObject({ status: 200 });
    // A request uses the third file after the sweep has selected it.
    await gateway.database.query('BEGIN');
    await gateway.database.query('UPDATE upload SET used_at = now() WHERE id = $1', [usedLate]);
    const swept = sweep();
    await sleep(500);
    await gateway.database.query('COMMIT');
    await swept;
    expect((await listFiles()).toSorted()).toEqual([`${used}.png`, `${usedLate}.png`].toSorted());
    expect(await quota()).toMatchObject({ used: 2 * picture.length });
    expect(await edit(unused)).toMatchObject({ status: 400, body: { error: 'INVALID_INPUT_URL' } });
    expect(await edit(used)).toMatchObject({ status: 200 });
  });
});

describe('an upload URL', () => {
  it('accepts one sender at a time', async () => {
    const signed = await sign(picture.length);
    const headers = { ...signed.headers, 'content-length': picture.length };
    const { client: first } = openRequest(signed.uploadUrl, headers, 'PUT');
    first.write(picture.subarray(0, 1));
    const receiving = 'SELECT FROM upload WHERE id = $1 AND receiving_until > clock_timestamp()';
    await expect.poll(() => gateway.database.query(receiving, [signed.fileId])).toHaveLength(1);
    const second = await putFile(signed, picture);
    expect({ status: second.status, body: await second.json() }).toMatchObject({
      status: 409,
      body: { error: 'UPLOAD_IN_PROGRESS' },
    });
    expect(second.headers.get('retry-after')).toBe('5');
    // After a sender disconnects, the next sender can start at once.
    first.destroy();
    await expect.poll(async () => (await putFile(signed, picture)).status).toBe(200);
    // The claim of a sender whose process has crashed expires.
    const later = await sign(picture.length);
    await gateway.database.query('UPDATE upload SET receiving_until = now() WHERE id = $1', [
      later.fileId,
    ]);
    expect((await putFile(later, picture)).status).toBe(200);
    // The claim of an upload that takes long is renewed.
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const { fileId } = await sign(picture.length);
    await gateway.api.services.uploads.withUploadClaim(fileId, async () => {
      await gateway.database.query('UPDATE upload SET receiving_until = now() WHERE id = $1', [
        fileId,
      ]);
      vi.advanceTimersByTime(20_000);
      await expect.poll(() => gateway.database.query(receiving, [fileId])).toHaveLength(1);
    });
  });
});

describe('a recording in its request', () => {
  const transcribe = (fields: Record<string, string> = {}, headers = {}, { key } = caller) =>
    gateway.call('/api/v1/studio/audio/transcribe', {
      key,
      headers,
      body: makeForm({ ...fields, file: new File([speech], 'talk.mp3') }),
    });

  it('is stored and counted once for all repeats of its request, and kept for its job', async () => {
    const headers = { 'idempotency-key': 'the-same' };
    const first = await transcribe({ async: 'true' }, headers);
    const again = await transcribe({ async: 'true' }, headers);
    expect(again.body.data.jobId).toBe(first.body.data.jobId);
    await gateway.untilDone(first.body.data.jobId, caller.key);
    await expect.poll(() => listFiles()).toHaveLength(1);
    expect(await quota()).toMatchObject({ used: speech.length });
  });

  it('is removed when the request is rejected for any reason', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    expect(await transcribe({}, {}, poor)).toMatchObject({ status: 402 });
    const long = { 'idempotency-key': 'x'.repeat(300) };
    for (const [fields, headers] of [
      [{ language: 'not a language' }],
      [{ fileId: 'file_1' }],
      [{}, long],
    ]) {
      expect(await transcribe(fields, headers)).toMatchObject({ status: 400 });
    }
    for (const sender of [poor, caller]) {
      await expect.poll(() => listFiles(sender)).toEqual([]);
      // The row is removed after the file.
      await expect.poll(() => quota(sender)).toMatchObject({ used: 0 });
    }
  });
});
