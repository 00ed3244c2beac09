import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type StudioBody, type TestCaller } from '../harness/gateway.ts';
import { recordTone } from '../harness/recordings.ts';
import { makeForm, putFile, signUpload } from '../harness/uploads.ts';

const gateway = useGateway({ settled: 'last' });
let talkUrl: string;
let speech: Uint8Array<ArrayBuffer>;
beforeAll(async () => {
  speech = await recordTone(12.3);
  talkUrl = gateway.media.put('/talk.mp3', Buffer.from(speech));
});

interface Body extends StudioBody {
  data: StudioBody['data'] & {
    text: string;
    durationSeconds: number;
    words: { text: string; start: number; end: number }[];
    transcriptUrl: string;
    deadlineAt: string;
  };
}
interface Upload {
  fields?: Record<string, string>;
  file?: Uint8Array<ArrayBuffer>;
  part?: string;
  name?: string;
  headers?: Record<string, string>;
}

const path = '/api/v1/studio/audio/transcribe';
const secondCredits = 0.006_11;

const transcribe = (body: object) => gateway.call<Body>(path, { body });
const upload = ({ fields, file = speech, part = 'file', headers = {}, name }: Upload) =>
  gateway.call<Body>(path, {
    headers,
    body: makeForm({ ...fields, [part]: new File([file], name ?? 'talk.mp3') }),
  });

const countReservations = () => gateway.database.query('SELECT count(*) FROM reservation');

describe('a recording in the request', () => {
  it('is transcribed with the time of each word, charged by its seconds, and in no history', async () => {
    const answer = await upload({ fields: { language: 'en-GB', fileName: 'Talk one.mp3' } });
    expect(answer.status).toBe(200);
    const { data, credits } = answer.body;
    expect(data).toEqual({
      text: expect.stringMatching(/^[A-Z].*\.$/),
      language: 'en',
      durationSeconds: expect.closeTo(12.3, 0),
      words: expect.any(Array),
      model: 'scribe_v2',
      source: 'file',
      transcriptUrl: expect.stringMatching(/\.json\?/),
      expiresAt: expect.any(String),
    });
    expect(data.words.length).toBeGreaterThan(20);
    let at = 0;
    for (const word of data.words) {
      expect(word.start).toBeGreaterThanOrEqual(at);
      expect(word.end).toBeGreaterThanOrEqual(word.start);
      at = word.end;
    }
    expect(at).toBeLessThanOrEqual(data.durationSeconds);
    expect(data.words.map(({ text }) => text).join('')).toBe(data.text);
    expect(credits.used).toBeCloseTo(13 * secondCredits, 6);
    const document = await fetch(data.transcriptUrl);
    expect(document.headers.get('content-type')).toContain('application/json');
    expect(await document.json()).toMatchObject({ text: data.text, words: data.words });
    const [submit] = await gateway.sandbox.submits({ match: 'Talk one.mp3' });
    expect(submit?.body['file']).toMatchObject({ sizeBytes: speech.length });

    const job = (await gateway.database.jobs(gateway.caller.organizationId)).at(-1);
    expect(submit).toMatchObject({ idempotencyKey: `${job?.id}:0` });
    const payloads = (await gateway.events(job?.id ?? '')).flatMap((event) => {
      const inputs = event.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
      const results = event.activityTaskCompletedEventAttributes?.result?.payloads ?? [];
      return [...inputs, ...results].map((payload) =>
        Buffer.from(payload.data ?? []).toString('utf8'),
      );
    });
    expect(payloads.length).toBeGreaterThan(1);
    for (const payload of payloads) expect(payload).not.toContain(data.words.at(-1)?.text ?? '?');
  });

  it('returns 202 for an asynchronous request, which its bytes identify; lists and explanations omit the transcript', async () => {
    // A name that Postgres could not store: a NUL, and half an emoji after 255 characters.
    const name = `a\0${'x'.repeat(253)}🎤.mp3`;
    const headers = { 'idempotency-key': 'transcript-1' };
    const request = { fields: { async: 'true' }, headers, name };
    const accepted = await upload(request);
    expect(accepted.status).toBe(202);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    const other = await upload({ ...request, file: await recordTone(2) });
    expect(other.status).toBe(422);
    const result = { durationSeconds: expect.any(Number), transcriptUrl: expect.any(String) };
    expect(done.body.data).toMatchObject({
      status: 'completed',
      result: { ...result, text: expect.any(String), words: expect.any(Array) },
    });
    const list = await gateway.call<{ data: { result: object }[] }>('/api/v1/studio/jobs?limit=1');
    // An explanation reads nothing from the storage, which may be damaged or away.
    const { jobId } = accepted.body.data;
    const explained = await gateway.admin<{ data: { result: object } }>(`/jobs/${jobId}`);
    for (const shown of [list.body.data[0], explained.body.data]) {
      expect(shown).toMatchObject({ result });
      expect(shown?.result).not.toHaveProperty('words');
    }
  });

  it.each<[string, Upload, string]>([
    ['a text in place of a recording', { file: Buffer.from('no sound in here') }, 'file'],
    ['a file in another part', { part: 'audio' }, 'audio'],
    ['a field that does not exist', { fields: { tempo: '1' } }, 'tempo'],
    ['a spelled flag that is none', { fields: { async: 'yes' } }, 'async'],
    ['a second source', { fields: { audioUrl: 'https://example.com/a.mp3' } }, 'fileId'],
    ['a file id beside the file', { fields: { fileId: 'file_1' } }, 'file'],
    ['a field that is too long', { fields: { fileName: 'x'.repeat(5000) } }, 'fileName'],
    [
      'too many parts',
      { fields: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`f${i}`, '1'])) },
      '(body)',
    ],
  ])('is rejected with %s, and nothing is reserved', async (_name, request, field) => {
    const before = await countReservations();
    const answer = await upload(request);
    expect([answer.status, answer.body.details[0]?.path]).toEqual([400, field]);
    expect(await countReservations()).toEqual(before);
  });

  it('is rejected when the form is cut off', async () => {
    const answer = await gateway.call(path, {
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
      body: '--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\nhalf',
    });
    expect(answer.status).toBe(400);
  });
});

describe('an uploaded recording', () => {
  it('is found by its fileId and by its URL, and priced by its length', async () => {
    const signed = await signUpload(gateway, { contentType: 'audio/mpeg' });
    const { fileId, publicUrl } = signed;
    expect((await transcribe({ fileId })).body.error).toBe('INVALID_INPUT_URL');
    expect((await putFile(signed, speech)).ok).toBe(true);
    for (const [source, body] of [
      ['file', { fileId }],
      ['url', { audioUrl: publicUrl }],
    ] as const) {
      const answer = await transcribe(body);
      expect(answer).toMatchObject({ status: 200, body: { data: { source } } });
      expect(answer.body.credits.used).toBeCloseTo(13 * secondCredits, 6);
    }
    const { key } = await gateway.newCaller({ credits: 10 });
    const foreign = await gateway.call(path, { key, body: { fileId } });
    expect([foreign.status, foreign.body.error]).toEqual([400, 'INVALID_INPUT_URL']);
  });

  it.each(['https://example.com/a.mp3', 'file_1', 'storage:org_1/file_2.mp3'])(
    'is not found by a fileId that is no id: %s',
    async (fileId) => {
      const { status, body } = await transcribe({ fileId });
      const message = `must be the id of an uploaded file (received ${JSON.stringify(fileId)})`;
      expect([status, body.details]).toEqual([400, [{ path: 'fileId', message }]]);
    },
  );
});

type Meanwhile = (caller: TestCaller) => Promise<void>;

/** Sets the limit of the key to 0 while the job runs. */
const endKey: Meanwhile = async ({ key, keyId }) => {
  const request = { method: 'PUT', key, body: { limit: { credits: 0, per: 'total' } } };
  expect((await gateway.call(`/api/v1/api-keys/${keyId}/limit`, request)).status).toBe(200);
};

/** Jobs that reserve what is free while another one runs. */
const parked: { jobId: string; key: string }[] = [];
const park: Meanwhile = async ({ key }) => {
  const jobId = await gateway.startImage({ prompt: '[[slow:60s]] parked' }, key);
  parked.push({ jobId, key });
};

describe('a recording of which the provider reports more seconds', () => {
  const none: Meanwhile = () => Promise.resolve();
  const heard = { seconds: 100, charged: 100 * secondCredits };
  it.each<[string, { seconds: number; charged?: number; credits?: number; meanwhile?: Meanwhile }]>(
    [
      ['is charged for them', heard],
      ['also if the balance is less', { ...heard, credits: 0.3 }],
      ['also if the limit of the key is 0 meanwhile', { ...heard, meanwhile: endKey }],
      ['also if the balance is reserved meanwhile', { ...heard, credits: 4, meanwhile: park }],
      ['as far as its bytes can hold', { seconds: 3e7 }],
    ],
  )('%s', async (_name, { seconds, charged, credits = 100, meanwhile = none }) => {
    const caller = await gateway.newCaller({ credits });
    const { key, organizationId } = caller;
    const slow = meanwhile === none ? '' : '[[slow:8s]]';
    const name = `[[long-recording:${seconds}]] ${slow} talk.mp3`;
    const started = await gateway.call<Body>(path, {
      key,
      body: makeForm({ file: new File([speech], name), async: 'true' }),
    });
    expect(started.body.credits.cost).toBeCloseTo(13 * secondCredits, 6);
    const { jobId } = started.body.data;
    await meanwhile(caller);
    const done = await gateway.untilDone(jobId, key);
    expect(done.body.data).toMatchObject({ status: 'completed', billing: { state: 'charged' } });
    const expected = charged ?? Math.ceil(speech.length / 100) * secondCredits;
    expect(done.body.data.billing.charged).toBeCloseTo(expected, 5);
    for (const { jobId: other } of parked.splice(0)) {
      await gateway.cancel(other, key);
      await gateway.untilDone(other, key);
    }
    const balance = await gateway.database.balance(organizationId);
    expect(balance).toMatchObject({ reserved: 0 });
    expect(balance?.posted).toBeCloseTo((credits - expected) * 1e6, 0);
    // Below zero, nothing starts, not even for free.
    if (credits > expected) return;
    const next = await gateway.call('/api/v1/studio/music/plan', { key, body: { prompt: 'a' } });
    expect([next.status, next.body.error]).toEqual([402, 'INSUFFICIENT_CREDITS']);
  });
});

describe('a recording at an external URL', () => {
  it('is reserved at a maximum and charged by its length', async () => {
    const accepted = await transcribe({ audioUrl: talkUrl, async: true });
    expect(accepted.status).toBe(202);
    expect(accepted.body.credits.cost).toBeCloseTo(14_400 * secondCredits, 6);
    expect(Date.parse(accepted.body.data.deadlineAt) - Date.now()).toBeGreaterThan(600_000);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    expect(done.body.data).toMatchObject({ result: { source: 'url' } });
    expect(done.body.data.billing.charged).toBeCloseTo(13 * secondCredits, 6);
  });
});

describe('a recording at an external URL with secrets', () => {
  const secret = 'hush-7f3a9';

  it.each([`X-Amz-Signature=${secret}&X-Amz-Date=1`, `sv=1&sig=${secret}`, `token=${secret}`])(
    'is copied and measured, and its secrets are in no history and no row: %s',
    async (query) => {
      const audioUrl = gateway.media.put(`/talk.mp3?${query}`, Buffer.from(speech));
      const estimated = await gateway.call(`${path}/estimate`, { body: { audioUrl } });
      const accepted = await transcribe({ audioUrl, async: true });
      expect([estimated.status, accepted.status]).toEqual([200, 202]);
      expect(accepted.body.credits.cost).toBeCloseTo(13 * secondCredits, 6);
      expect(estimated.body.data).toMatchObject({ credits: accepted.body.credits.cost });
      const { jobId } = accepted.body.data;
      const done = await gateway.untilDone(jobId);
      expect(done.body.data).toMatchObject({ status: 'completed', result: { source: 'url' } });
      expect(done.body.data.billing.charged).toBeCloseTo(13 * secondCredits, 6);
      const payloads = (await gateway.events(jobId)).flatMap((event) =>
        [
          ...(event.workflowExecutionStartedEventAttributes?.input?.payloads ?? []),
          ...(event.activityTaskScheduledEventAttributes?.input?.payloads ?? []),
          ...(event.activityTaskCompletedEventAttributes?.result?.payloads ?? []),
        ].map((payload) => Buffer.from(payload.data ?? []).toString('utf8')),
      );
      expect(payloads.length).toBeGreaterThan(1);
      expect(payloads.join('\n')).not.toContain(secret);
      const rows = await gateway.database.query(
        'SELECT to_jsonb(j) AS job FROM job j WHERE id = $1',
        [jobId],
      );
      expect(JSON.stringify(rows)).toContain('REDACTED');
      expect(JSON.stringify(rows)).not.toContain(secret);
      // The provider received the file itself, not a URL.
      const submits = await gateway.sandbox.submits({ match: 'talk' });
      expect(JSON.stringify(submits)).not.toContain(secret);
    },
  );

  it('that cannot be read or is no recording is rejected by name', async () => {
    const text = gateway.media.put('/a.txt?sig=x', Buffer.from('no sound in here'));
    for (const audioUrl of [text, `${gateway.media.origin}/missing.mp3?sig=x`]) {
      const { status, body } = await transcribe({ audioUrl });
      expect([status, body.error, body.details[0]?.path]).toEqual([
        400,
        'INVALID_INPUT_URL',
        'audioUrl',
      ]);
    }
  });
});
