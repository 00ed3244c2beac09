/**
 * Replays of finished jobs: a request with the Idempotency-Key of a finished job returns that job,
 * although its input was deleted or the host of the input is gone. Only the database decides.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { capabilities } from '../../studio/registry.ts';
import { useGateway, type Answer } from '../harness/gateway.ts';
import { discPicture, makeFilm } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';

type Body = Record<string, unknown>;

const gateway = useGateway({ credits: 1_000_000, settled: 'last' });
type Medium = 'image' | 'video' | 'audio';
/** An input of each medium. */
const inputs = {} as Record<Medium, { name: string; bytes: Buffer }>;
beforeAll(async () => {
  inputs.image = { name: 'a.png', bytes: await discPicture(60, 40) };
  inputs.video = { name: 'a.mp4', bytes: await makeFilm() };
  inputs.audio = { name: 'a.mp3', bytes: Buffer.from(await recordTone(1)) };
});

/** Fields that take an input, with its medium. */
const inputFields: Record<string, Medium> = {
  imageUrl: 'image',
  imageUrls: 'image',
  maskUrl: 'image',
  videoUrl: 'video',
  audioUrl: 'audio',
  fileId: 'audio',
};

/** Fields that take an input but are not in every example. */
const furtherInputs: Record<string, Body> = {
  imageGenerate: { imageUrls: [''] },
  videoGenerate: { imageUrl: '', async: true },
  audioTranscribe: { audioUrl: '' },
};

async function replaced(body: Body, inputOf: (medium: Medium) => Promise<string>) {
  const fields = Object.entries(body).map(async ([name, value]): Promise<[string, unknown]> => {
    const medium = inputFields[name];
    if (medium === undefined) return [name, value];
    return [name, Array.isArray(value) ? [await inputOf(medium)] : await inputOf(medium)];
  });
  return Object.fromEntries(await Promise.all(fields));
}

async function uploadOf(medium: Medium): Promise<string> {
  const { name, bytes } = inputs[medium];
  const signed = await gateway.call<{
    fileId: string;
    uploadUrl: string;
    headers: Record<string, string>;
  }>('/api/v1/storage/upload-url', { body: { filename: name } });
  const { fileId, uploadUrl, headers } = signed.body;
  const sent = await fetch(uploadUrl, { method: 'PUT', headers, body: new Uint8Array(bytes) });
  expect(sent.ok).toBe(true);
  return fileId;
}

const keyed = (path: string, key: string, body: Body): Promise<Answer> =>
  gateway.call(`/api/v1${path}`, { headers: { 'idempotency-key': key, prefer: 'wait=60' }, body });

/** Waits for the job of an answer, which is the newest. */
async function finished(): Promise<string> {
  const [job] = await gateway.database.query<{ id: string }>(
    'SELECT id FROM job ORDER BY created_at DESC LIMIT 1',
  );
  const done = await gateway.untilDone(job?.id ?? '');
  expect(done.body.data.status).toBe('completed');
  return job?.id ?? '';
}

const movesOf = async (jobId: string) =>
  gateway.database.query('SELECT kind FROM ledger_entry WHERE reservation_id = $1', [jobId]);

const withInputs = capabilities.filter(({ type, example }) =>
  Object.keys({ ...example, ...furtherInputs[type] }).some((name) => inputFields[name]),
);

describe('a replay of a finished job', () => {
  it('is tested for each capability that takes an input', () => {
    expect(withInputs.map(({ type }) => type).toSorted()).toEqual([
      'audioTranscribe',
      'imageBatch',
      'imageEdit',
      'imageGenerate',
      'imageRemoveBackground',
      'imageUpscale',
      'videoGenerate',
      'videoRemoveBackground',
      'videoUpscale',
    ]);
  });

  it.each(withInputs.map((capability) => [capability.type, capability] as const))(
    'returns the job although its uploaded input was deleted: %s',
    async (type, { path, example }) => {
      const fileIds: string[] = [];
      const body = await replaced({ ...example, ...furtherInputs[type] }, async (medium) => {
        const fileId = await uploadOf(medium);
        fileIds.push(fileId);
        return fileId;
      });
      // A recording is named by its id, all other inputs by URL or id.
      if ('audioUrl' in body) body['fileId'] = body['audioUrl'];
      delete body['audioUrl'];
      const first = await keyed(path, `upload-${type}`, body);
      expect(first.body.error).toBeUndefined();
      const jobId = await finished();
      for (const fileId of fileIds) {
        const deleted = await gateway.call(`/api/v1/storage/files/${fileId}`, { method: 'DELETE' });
        expect(deleted.status).toBe(200);
      }
      const moves = await movesOf(jobId);
      const replay = await keyed(path, `upload-${type}`, body);
      expect([replay.status, replay.body.error]).toEqual([200, undefined]);
      expect(replay.headers.get('idempotent-replayed')).toBe('true');
      expect(await movesOf(jobId)).toEqual(moves);
      const other = await keyed(path, `upload-${type}`, {
        ...body,
        async: true,
        webhookUrl: 'https://example.com/',
      });
      expect([other.status, other.body.error]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED']);
      // Under a new key the deleted input is rejected, and the key stays free.
      const rejected = await keyed(path, `new-${type}`, body);
      expect([rejected.status, rejected.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
      expect(await claimed(`new-${type}`)).toEqual([]);
    },
  );

  it('returns the job although the host of its input URL is gone, for each medium', async () => {
    const ofEachMedium = withInputs.filter(({ type }) =>
      ['imageUpscale', 'videoUpscale', 'audioTranscribe'].includes(type),
    );
    const jobs = await Promise.all(
      ofEachMedium.map(async ({ type, path, example }) => {
        const given = await replaced({ ...example, ...furtherInputs[type] }, (medium) => {
          const { name, bytes } = inputs[medium];
          return Promise.resolve(gateway.media.put(`/${type}-${name}`, bytes));
        });
        const body = { ...given, async: true };
        const first = await keyed(path, `url-${type}`, body);
        return { type, path, body, jobId: first.body.data.jobId };
      }),
    );
    for (const { jobId } of jobs) await gateway.untilDone(jobId);
    for (const { type } of jobs) {
      for (const { name } of Object.values(inputs)) {
        gateway.media.serve(`/${type}-${name}`, (response) => void response.destroy());
      }
    }
    for (const { type, path, body, jobId } of jobs) {
      const replay = await keyed(path, `url-${type}`, body);
      expect([type, replay.status, replay.body.error]).toEqual([type, 200, undefined]);
      expect(replay.headers.get('idempotent-replayed')).toBe('true');
      expect(await movesOf(jobId)).toHaveLength(2);
    }
  });
});

const claimed = (key: string) =>
  gateway.database.query('SELECT state FROM idempotency_claim WHERE idempotency_key = $1', [key]);

describe('a replay of a form', () => {
  const form = (fields: Record<string, string>, part: string, medium: Medium): FormData => {
    const made = new FormData();
    for (const [name, value] of Object.entries(fields)) made.append(name, value);
    const { name, bytes } = inputs[medium];
    made.append(part, new Blob([new Uint8Array(bytes)]), name);
    return made;
  };
  const prompt = 'a boat';

  it.each([
    ['/api/v1/images/edits', () => form({ prompt }, 'image', 'image')],
    ['/api/v1/audio/transcriptions', () => form({ model: 'scribe_v2' }, 'file', 'audio')],
    ['/api/v1/studio/audio/transcribe', () => form({}, 'file', 'audio')],
    ['/api/v1/videos', () => form({ prompt, model: 'veo' }, 'input_reference', 'image')],
  ])('stores no file again, and works when the quota is used up: %s', async (path, made) => {
    const send = (key: string) =>
      fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.caller.key}`, 'idempotency-key': key },
        body: made(),
      });
    const first = await send(`form-${path}`);
    expect(first.ok ? '' : await first.text()).toBe('');
    await finished();
    const uploads = await gateway.database.query('SELECT id FROM upload ORDER BY id');
    // From here on, storing a file of any size is rejected.
    await gateway.database.query('UPDATE organization SET upload_bytes = 1e15');
    try {
      const replay = await send(`form-${path}`);
      expect(replay.status).toBeLessThan(300);
      expect(replay.headers.get('idempotent-replayed')).toBe('true');
      const rejected = await send(`new-${path}`);
      expect(rejected.status).toBe(403);
      expect(await claimed(`new-${path}`)).toEqual([]);
    } finally {
      await gateway.database.query('UPDATE organization SET upload_bytes = 0');
    }
    expect(await gateway.database.query('SELECT id FROM upload ORDER BY id')).toEqual(uploads);
  });
});
