/**
 * Replays of finished jobs: a request with the Idempotency-Key of a finished job returns that job,
 * although its input was deleted or the host of the input is gone. Only the database decides.
 */
import assert from 'node:assert/strict';
import { beforeAll, describe, expect, it } from 'vitest';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { useGateway, type Answer } from '../harness/gateway.ts';
import { drawDisc, makeFilm } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { makeForm, uploadFile } from '../harness/uploads.ts';

type Body = Record<string, unknown>;

const gateway = useGateway({ credits: 1_000_000, settled: 'last' });
type Medium = 'image' | 'video' | 'audio';
/** An input of each medium. */
const inputs = {} as Record<Medium, Buffer>;
beforeAll(async () => {
  inputs.image = await drawDisc(60, 40);
  inputs.video = await makeFilm();
  inputs.audio = Buffer.from(await recordTone(1));
});

/** Fields that take an input, with its medium. */
const inputFields: Record<string, Medium> = {
  imageUrl: 'image',
  imageUrls: 'image',
  maskUrl: 'image',
  videoUrl: 'video',
  videoUrls: 'video',
  audioUrl: 'audio',
  fileId: 'audio',
};

/** Fields that take an input but are not in every example. */
const furtherInputs: Record<string, Body> = {
  imageGenerate: { imageUrls: [''] },
  videoGenerate: { imageUrl: '', async: true },
  audioTranscribe: { audioUrl: '' },
};

async function replaceInputs(body: Body, makeInput: (medium: Medium) => Promise<string>) {
  const fields = Object.entries(body).map(async ([name, value]): Promise<[string, unknown]> => {
    const medium = inputFields[name];
    if (medium === undefined) return [name, value];
    return [name, Array.isArray(value) ? [await makeInput(medium)] : await makeInput(medium)];
  });
  return Object.fromEntries(await Promise.all(fields));
}

const send = (path: string, key: string, body: Body | FormData): Promise<Answer> =>
  gateway.call(path, { headers: { 'idempotency-key': key, prefer: 'wait=60' }, body });

/** Waits for the newest job, and returns its id. */
async function finishNewest(): Promise<string> {
  const { id } =
    (await gateway.database.jobs(gateway.caller.organizationId)).at(-1) ?? assert.fail();
  expect((await gateway.untilDone(id)).body.data.status).toBe('completed');
  return id;
}

async function expectReplay(path: string, key: string, body: Body | FormData): Promise<void> {
  const { status, headers, body: response } = await send(path, key, body);
  expect(status, JSON.stringify(response)).toBe(200);
  expect(headers.get('idempotent-replayed')).toBe('true');
}

const readClaims = (key: string) =>
  gateway.database.query('SELECT state FROM idempotency_claim WHERE idempotency_key = $1', [key]);

const withInputs = capabilities.filter(({ type, example }) =>
  Object.keys({ ...example, ...furtherInputs[type] }).some((name) => inputFields[name]),
);

describe('a replay of a finished job', () => {
  it('is tested for each capability that takes an input', () => {
    expect(withInputs).toHaveLength(10);
  });

  it.each(withInputs.map((capability) => [capability.type, capability] as const))(
    'returns the job although its uploaded input was deleted: %s',
    async (type, { path, example }) => {
      const fileIds: string[] = [];
      const route = `/api/v1${path}`;
      const body = await replaceInputs({ ...example, ...furtherInputs[type] }, async (medium) => {
        const { fileId } = await uploadFile(gateway, inputs[medium]);
        fileIds.push(fileId);
        return fileId;
      });
      // A recording is named by its id, all other inputs by URL or id.
      if (type === 'audioTranscribe') {
        body['fileId'] = body['audioUrl'];
        delete body['audioUrl'];
      }
      const first = await send(route, `upload-${type}`, body);
      expect(first.body.error).toBeUndefined();
      const jobId = await finishNewest();
      for (const fileId of fileIds) {
        const deleted = await gateway.call(`/api/v1/storage/files/${fileId}`, { method: 'DELETE' });
        expect(deleted.status).toBe(200);
      }
      await expectReplay(route, `upload-${type}`, body);
      expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
      const changed = { ...body, async: true, webhookUrl: 'https://example.com/' };
      const other = await send(route, `upload-${type}`, changed);
      expect([other.status, other.body.error]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED']);
      // Under a new key the deleted input is rejected, and the key stays free.
      const rejected = await send(route, `new-${type}`, body);
      expect([rejected.status, rejected.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
      expect(await readClaims(`new-${type}`)).toEqual([]);
    },
  );

  it('returns the job although the host of its input URL is gone, for each medium', async () => {
    const ofEachMedium = withInputs.filter(({ type }) =>
      ['imageUpscale', 'videoUpscale', 'audioTranscribe'].includes(type),
    );
    const jobs = await Promise.all(
      ofEachMedium.map(async ({ type, path, example }) => {
        const route = `/api/v1${path}`;
        const body = await replaceInputs({ ...example, ...furtherInputs[type] }, async (medium) =>
          gateway.media.put(`/${medium}`, inputs[medium]),
        );
        const { data } = (await send(route, `url-${type}`, { ...body, async: true })).body;
        return { type, route, body: { ...body, async: true }, jobId: data.jobId };
      }),
    );
    for (const { jobId } of jobs) await gateway.untilDone(jobId);
    for (const medium of Object.keys(inputs)) {
      gateway.media.serve(`/${medium}`, (response) => void response.destroy());
    }
    for (const { type, route, body, jobId } of jobs) {
      await expectReplay(route, `url-${type}`, body);
      expect(await gateway.database.entryKinds(jobId)).toEqual(['reserve', 'charge']);
    }
  });
});

describe('a replay of a form', () => {
  const prompt = 'a boat';
  it.each<[path: string, fields: Record<string, string>, part: string, medium: Medium]>([
    ['/api/v1/images/edits', { prompt }, 'image', 'image'],
    ['/api/v1/audio/transcriptions', { model: 'scribe_v2' }, 'file', 'audio'],
    ['/api/v1/studio/audio/transcribe', {}, 'file', 'audio'],
    ['/api/v1/videos', { prompt, model: 'veo' }, 'input_reference', 'image'],
  ])(
    'stores no file again, and works when the quota is used up: %s',
    async (path, fields, part, medium) => {
      const { organizationId } = gateway.caller;
      const file = new File([new Uint8Array(inputs[medium])], `a.${medium}`);
      const form = makeForm({ ...fields, [part]: file });
      const first = await send(path, `form-${path}`, form);
      expect(first.status, JSON.stringify(first.body)).toBeLessThan(300);
      await finishNewest();
      const uploads = await gateway.database.uploadIds(organizationId);
      // From here on, storing a file of any size is rejected.
      const setBytes = (bytes: number) =>
        gateway.database.query('UPDATE organization SET upload_bytes = $1 WHERE id = $2', [
          bytes,
          organizationId,
        ]);
      await setBytes(1e15);
      try {
        await expectReplay(path, `form-${path}`, form);
        expect((await send(path, `new-${path}`, form)).status).toBe(403);
        expect(await readClaims(`new-${path}`)).toEqual([]);
      } finally {
        await setBytes(0);
      }
      expect(await gateway.database.uploadIds(organizationId)).toEqual(uploads);
    },
  );
});
