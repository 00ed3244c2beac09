/** Activities that call providers. Each is one attempt, in a place of its provider (attempt.ts). */
import type { Json } from '../../domain/json.ts';
import type { CallOutputs, CallTask } from '../../jobs/job-plan.ts';
import { ProviderFailure, type Canceled, type Operation } from '../providers/provider.ts';
import { attemptInPlace } from './attempt.ts';
import { callOf, queueOf, stored, type ProviderCallsDeps } from './called-provider.ts';
import { adopt, awaitResume, submit, type AdoptOutcome, type SubmitOutcome } from './submits.ts';

/** What a status check found. */
export type CheckOutcome = { kind: 'pending'; progress: Json } | { kind: 'ended' };

/** A call whose provider works on it. */
export interface AcceptedCall extends CallTask {
  operation: Operation;
}

/** A call that has ended, as a notification or a check has said. */
export interface EndedCall extends AcceptedCall {
  notified: boolean;
}

/** A status check, or a cancel, of queued work is a short exchange. */
const checkTimeoutMs = 45_000;

/** Activities of the provider queues; `awaitResume` is one of the Studio queue. */
export function createProviderCalls(deps: ProviderCallsDeps) {
  const { places } = deps;
  return {
    /** Sends the call. */
    submit: (task: CallTask): Promise<SubmitOutcome> =>
      attemptInPlace(places, task, () => submit(deps, task)),
    /** Reads what an earlier submit came to. */
    adopt: (task: CallTask): Promise<AdoptOutcome> =>
      attemptInPlace(places, task, () => adopt(deps, task)),
    /** Requests the status of the call, and records its progress. */
    check: (task: AcceptedCall): Promise<CheckOutcome> =>
      attemptInPlace(places, task, () => check(deps, task)),
    /** Reads the result of a call that has ended, and stores its outputs. */
    store: (task: EndedCall): Promise<CallOutputs> =>
      attemptInPlace(places, task, () => store(deps, task)),
    /** Requests the provider to stop. */
    cancel: (task: AcceptedCall): Promise<Canceled> =>
      attemptInPlace(places, task, () =>
        queueOf(deps, task).cancel(task.operation, AbortSignal.timeout(checkTimeoutMs)),
      ),
    /** Fails until one of these routes of a call is not paused. */
    awaitResume: (routes: CallTask[]): Promise<void> => awaitResume(deps, routes),
  };
}
export type ProviderCalls = ReturnType<typeof createProviderCalls>;

async function check(deps: ProviderCallsDeps, task: AcceptedCall): Promise<CheckOutcome> {
  const checked = await queueOf(deps, task).check(task.operation, {
    signal: AbortSignal.timeout(checkTimeoutMs),
    expectDone: false,
  });
  if (checked.kind === 'failed') throw checked.failure;
  if (checked.kind !== 'pending') return { kind: 'ended' };
  await deps.records
    .progressed({ ...callOf(task), progress: checked.progress })
    .catch((error: unknown) =>
      deps.logger.info({ error, ...callOf(task) }, 'call.progress_not_recorded'),
    );
  return checked;
}

async function store(deps: ProviderCallsDeps, task: EndedCall): Promise<CallOutputs> {
  const checked = await queueOf(deps, task).check(task.operation, {
    signal: AbortSignal.timeout(checkTimeoutMs),
    expectDone: true,
    wokenBy: task.notified ? 'notification' : 'timer',
  });
  if (checked.kind === 'failed') throw checked.failure;
  if (checked.kind === 'pending') {
    throw new ProviderFailure('unfinished', 'the provider still works on it');
  }
  return stored(deps, task, checked.result);
}
