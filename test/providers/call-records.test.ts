/** Records of provider calls: an accepted call is never sent again, also after late writes. */
import { beforeAll, describe, expect, it } from 'vitest';
import { createCallRecords, type CallRecords } from '../../providers/call-records.ts';
import { createReadCalls } from '../../studio/jobs/job-calls.ts';
import type { CallOutputs } from '../../domain/job-plan.ts';
import { newId } from '../../domain/ids.ts';
import { command } from '../../platform/database.ts';
import { useLedger } from '../ledger/use-ledger.ts';

const ledgers = useLedger();
let records: CallRecords;
beforeAll(() => {
  records = createCallRecords(ledgers.pool);
});

const operation = { id: 'op-1', providerEndpoint: 'fal-ai/x' } as never;
const outputs: CallOutputs = { callIndex: 0, artifacts: [], data: null, delivered: 1, error: null };
const noIds = { providerRequestId: null, providerErrorType: null };
const unacceptedSubmit = {
  message: 'rejected (401)',
  providerRequestId: 'req_refused',
  providerErrorType: 'bad_key',
};
type Call = Pick<Parameters<typeof records.begin>[0], 'jobId' | 'callIndex'>;
const route = { routeIndex: 0, provider: 'fal', providerEndpoint: 'fal-ai/x' };

const begin = (call: Call, senderId?: string) =>
  records.begin({ ...call, ...route, ...(senderId !== undefined && { senderId }) });

async function beginCall(senderId?: string) {
  const jobId = newId('job');
  await ledgers.reserve(await ledgers.newHolder(), 1, { id: jobId, hasJob: true });
  const call = { jobId, callIndex: 0 };
  expect(await begin(call, senderId)).toEqual({ verdict: 'send' });
  return call;
}

describe('a call', () => {
  it('may be sent again after a submit that was not accepted', async () => {
    const call = await beginCall();
    await records.markNotAccepted(call, unacceptedSubmit);
    // Postgres stores no NUL.
    await records.markNotAccepted(call, { ...unacceptedSubmit, message: 'rejected \0(401)' });
    expect(await begin(call)).toEqual({ verdict: 'send' });
    const [row] = await createReadCalls(ledgers.pool)([call.jobId]);
    expect(row).toMatchObject({
      attempts: 2,
      ...noIds,
      unacceptedSubmits: [{ ...unacceptedSubmit, routeIndex: 0, provider: 'fal' }],
    });
  });

  it('whose input its provider could not read may be sent again, once', async () => {
    const call = await beginCall();
    await records.markAccepted({ ...call, operation });
    const failure = { message: 'not downloaded', providerErrorType: 'file_download_error' };
    const other = { id: 'op-0', providerEndpoint: 'fal-ai/x' } as never;
    await records.markUnread({ ...call, operation: other }, failure);
    expect(await records.find(call)).toMatchObject({ verdict: 'accepted' });
    await records.markUnread({ ...call, operation }, failure);
    expect(await begin(call)).toEqual({ verdict: 'send' });
    // A late report about the first operation, while the call is sent and after it was accepted.
    await records.markUnread({ ...call, operation }, failure);
    expect(await records.find(call)).toMatchObject({ verdict: 'begun' });
    await records.markAccepted({ ...call, operation: other });
    await records.markUnread({ ...call, operation }, failure);
    expect(await records.find(call)).toMatchObject({ verdict: 'accepted', operation: other });
    // A late notification does not identify the call that was sent again.
    await ledgers.pool.query(command`INSERT INTO provider_notification
      (job_id, call_index, provider, operation_id) VALUES (${call.jobId}, 0, 'fal', 'op-1')`);
    expect(await records.find(call)).toMatchObject({ notifiedId: null });
  });

  it('is sent again only by the attempt whose begin received no response', async () => {
    const call = await beginCall('one');
    expect(await begin(call, 'two')).toMatchObject({ verdict: 'begun' });
    expect(await begin(call)).toMatchObject({ verdict: 'begun' });
    expect(await begin(call, 'one')).toEqual({ verdict: 'send' });
    await records.markUnknown(call, noIds);
    expect(await begin(call, 'one')).toMatchObject({ verdict: 'unknown' });
  });

  it('keeps outputs with texts and field names that Postgres cannot store', async () => {
    const call = await beginCall();
    const data = { 'word\0s': [{ text: 'a\0b\uD83D' }], seconds: 2 };
    await records.markAnswered({ ...call, outputs: { ...outputs, data } });
    expect(await begin(call)).toMatchObject({
      verdict: 'answered',
      outputs: { data: { words: [{ text: 'ab\uFFFD' }], seconds: 2 } },
    });
  });

  it('may be sent again once its own attempt is noted as unsent', async () => {
    const call = await beginCall('one');
    records.noteUnsent({ ...call, senderId: 'two' });
    // The first notes are recorded at once.
    await expect.poll(() => records.find(call)).toMatchObject({ verdict: 'begun' });
    records.noteUnsent({ ...call, senderId: 'one' });
    await expect.poll(() => records.find(call)).toMatchObject({ verdict: 'not_accepted' });
    expect(await begin(call, 'three')).toEqual({ verdict: 'send' });
    // The notes are repeated, but not for the new attempt.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(await records.find(call)).toMatchObject({ verdict: 'begun' });
  });

  const accepted = { verdict: 'accepted', operation };
  const marks = {
    accepted: (call: Call) => records.markAccepted({ ...call, operation }),
    answered: (call: Call) => records.markAnswered({ ...call, outputs }),
    not_accepted: (call: Call) => records.markNotAccepted(call, unacceptedSubmit),
    unknown: (call: Call) => records.markUnknown(call, noIds),
    inProgress: (call: Call) =>
      records.recordProgress({ ...call, progress: { state: 'generating', queuePosition: 1 } }),
  };

  it.each<[string, (keyof typeof marks)[], object]>([
    ['that a provider accepted stays accepted', ['accepted', 'not_accepted'], accepted],
    ['that was accepted stays so if its submit fails later', ['accepted', 'unknown'], accepted],
    ['that was not accepted is so if it is reported later', ['not_accepted', 'accepted'], accepted],
    [
      'with outputs changes no more',
      ['accepted', 'answered', 'not_accepted', 'unknown', 'accepted', 'inProgress'],
      { verdict: 'answered', outputs },
    ],
  ])('%s', async (_title, names, found) => {
    const call = await beginCall();
    for (const name of names) await marks[name](call);
    expect(await begin(call)).toMatchObject(found);
  });

  it('is accepted if a failed submit and its acceptance are in one batch', async () => {
    const call = await beginCall();
    await Promise.all([marks.accepted(call), marks.not_accepted(call)]);
    expect(await begin(call)).toMatchObject({ verdict: 'accepted' });
  });
});
