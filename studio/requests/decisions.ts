/**
 * Decides about a step of a running pipeline that waits for an approval. The workflow has the last
 * word: two decisions may race, and only one counts. A changed body is planned, priced and authorized
 * by the code of single requests, with the results of the earlier steps as its inputs.
 */
import { createHash } from 'node:crypto';
import {
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  type Client,
} from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { z } from 'zod';
import { decideUpdate, type Decision } from '../../domain/approvals.ts';
import { createRecordSchema } from '../../domain/body-schema.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { assert, fieldError, GatewayError, invalidFieldsError } from '../../domain/errors.ts';
import { jobWorkflowId } from '../../domain/job-contract.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import {
  asRecord,
  isRecord,
  stringifySorted,
  type Json,
  type JsonObject,
} from '../../domain/json.ts';
import type { JobRecord, JobStep, StepApproval } from '../../domain/job-record.ts';
import type { PipelineStep } from '../../domain/pipeline-plan.ts';
import { authorize, authorizeModel } from '../../identity/access.ts';
import { plainTextSchema } from '../../identity/keys.ts';
import { parseStorageReference } from '../../storage/inputs/inputs.ts';
import { findByUse, getRequiredScope } from '../capabilities/capability.ts';
import { capabilities } from '../capabilities/capability-registry.ts';
import { fitsIntoPlan, stepBody, tooLongForPlan } from '../capabilities/request-fields.ts';
import { requestOf } from '../../executions/keeper.ts';
import { loadDocuments, type JobOverview, type JobReads } from '../jobs/job-reads.ts';
import {
  findApproval,
  listFiles,
  listFollowing,
  readStepBody,
} from '../pipelines/approval-view.ts';
import type { TakenStep } from '../pipelines/references.ts';
import { secretInputMessage, takeStep, withTaken } from '../pipelines/resume.ts';
import type { PricingServices } from './estimates.ts';
import { completePlan, hasSecretUrl } from './planner.ts';
import {
  authorizeRequest,
  draftRequest,
  measurePrices,
  type StudioRequest,
} from './request-draft.ts';

/** Fields of an approval, which choose outputs and change the body of the step. */
export const approvalFields = {
  outputs: createRecordSchema(z.int().min(0).max(99), { nameLengthMax: 40, countMax: 20 })
    .optional()
    .meta({ description: 'Indexes of the chosen outputs, by the id of the earlier step.' }),
  body: stepBody.refine(fitsIntoPlan, { error: tooLongForPlan, abort: true }).optional().meta({
    description:
      'Fields that replace those of the body of the step, which is priced anew; null removes a field.',
  }),
};

/** Fields of the two decisions. */
export const decisionFields = {
  approve: { decision: z.literal('approve'), ...approvalFields },
  reject: { decision: z.literal('reject'), reason: plainTextSchema(500).optional() },
};

/** Schema of the request that decides about a step. */
export const decisionRequest = z.discriminatedUnion('decision', [
  z.strictObject(decisionFields.approve).meta({ id: 'StepApproved' }),
  z.strictObject(decisionFields.reject).meta({ id: 'StepRejected' }),
]);
type DecisionRequest = z.infer<typeof decisionRequest>;
type Approval = Extract<DecisionRequest, { decision: 'approve' }>;

/** Decision about a step of a job, with its caller. */
export interface DecisionCall extends Pick<StudioRequest, 'caller' | 'countCopied'> {
  job: JobRecord;
  stepId: string;
  decision: DecisionRequest;
  requestId: string;
}

/** Services that decide about steps. */
export interface DecisionServices extends PricingServices {
  client: Client;
  jobOverview: Pick<JobOverview, 'readPlan'>;
  reads: Pick<JobReads, 'read'>;
}

/** Waiting step of a job, with the decision about it. */
interface WaitingCall extends DecisionCall {
  step: JobStep;
  approval: StepApproval;
  decision: Approval;
}

type Approved = Pick<Decision, 'outputs' | 'body' | 'changed'> & { discard?: () => Promise<void> };

/**
 * Decides about a step. `replayed` is true if the same decision was made before.
 * @throws GatewayError NOT_FOUND, FORBIDDEN, NOT_AWAITING, ALREADY_DECIDED, PRICE_LIMIT_EXCEEDED,
 * MEDIA_DELETED, SERVICE_UNAVAILABLE, and any error of a request of the step
 */
export async function decideStep(
  call: DecisionCall,
  services: DecisionServices,
): Promise<{ replayed: boolean }> {
  const { job, stepId, decision, caller } = call;
  const step = job.steps?.find(({ id }) => id === stepId);
  if (!step) throw new GatewayError('NOT_FOUND', `The job has no step ${stepId}.`);
  for (const { use, model } of listFollowing(job.steps ?? [], stepId)) {
    const capability = findByUse(capabilities, use);
    if (capability) authorize(caller, getRequiredScope(capability));
    authorizeModel(caller, model);
  }
  const hash = createHash('sha256').update(stringifySorted(decision)).digest('hex');
  if (isDecided(job, stepId, hash)) return { replayed: true };
  const approval = findApproval(job, stepId);
  if (job.status !== 'open' || !approval) throw new GatewayError('NOT_AWAITING');
  const base = { stepId, kind: decision.decision, hash, keyId: caller.keyId };
  if (decision.decision === 'reject') {
    const { reason = null } = decision;
    return send(call, { ...base, reason, outputs: {} }, services);
  }
  const { discard, ...approved } = await approve({ ...call, decision, step, approval }, services);
  try {
    return await send(call, { ...base, reason: null, ...approved }, services);
  } catch (error) {
    // A decision that was not confirmed may count.
    if (error instanceof GatewayError && error.status === 409) await discard?.();
    throw error;
  }
}

/**
 * Returns whether a step was decided by the same decision; false if it was not decided.
 * @throws GatewayError ALREADY_DECIDED or NOT_AWAITING
 */
function isDecided(job: JobRecord, stepId: string, hash: string): boolean {
  const end = findApproval(job, stepId)?.end;
  if (!end) return false;
  if (end.hash === null) throw new GatewayError('NOT_AWAITING');
  if (end.hash !== hash) throw new GatewayError('ALREADY_DECIDED');
  return true;
}

/** Sends a decision to the workflow of a job, and returns its verdict. */
async function send(
  { job }: DecisionCall,
  decision: Decision,
  { client, reads }: DecisionServices,
): Promise<{ replayed: boolean }> {
  try {
    const isRunning = await requestOf(client, jobWorkflowId(job.id), (workflow) =>
      workflow.executeUpdate(decideUpdate, { args: [decision] }),
    );
    if (isRunning) return { replayed: false };
  } catch (error) {
    if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) {
      const message = 'The workflow has not confirmed the decision. Send the same decision again.';
      throw new GatewayError('SERVICE_UNAVAILABLE', message, { retryAfterSeconds: 2 });
    }
    if (!(error instanceof WorkflowUpdateFailedError)) throw error;
    const type = error.cause instanceof ApplicationFailure ? error.cause.type : null;
    if (type === 'SAME_DECISION') return { replayed: true };
    if (type === 'ALREADY_DECIDED') throw new GatewayError('ALREADY_DECIDED');
  }
  // The wait has ended meanwhile, or has not begun: the row is written first. The row decides which.
  const latest = await reads.read(job.organizationId, job.id);
  if (latest && isDecided(latest, decision.stepId, decision.hash)) return { replayed: true };
  if (latest?.status !== 'open') throw new GatewayError('NOT_AWAITING');
  throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 2 });
}

/** Builds the body with which a step runs, and plans it if the caller changes it. */
async function approve(call: WaitingCall, services: DecisionServices): Promise<Approved> {
  const { job, step, decision } = call;
  const fields = Object.entries({ ...readStepBody(job, step.id), ...decision.body });
  const kept = fields.filter(([name]) => decision.body?.[name] !== null);
  const { body, outputs } = chooseOutputs(Object.fromEntries(kept), call);
  if (!decision.body) {
    await throwIfFileMissing(call, services);
    return { outputs, body };
  }
  const lacking = Object.keys(body).find(
    (name) => !Object.hasOwn(decision.body ?? {}, name) && hasSecretUrl(body[name]),
  );
  if (lacking !== undefined)
    throw fieldError('INVALID_REQUEST', `body.${lacking}`, secretInputMessage);
  const sent = Array.isArray(job.request['steps']) ? job.request['steps'].map(asRecord) : [];
  const steps = sent.map((other) => (other['id'] === step.id ? { ...other, body } : other));
  if (!fitsIntoPlan(steps)) {
    const message = `${tooLongForPlan} together with the other steps`;
    throw fieldError('INVALID_REQUEST', 'body', message);
  }
  return { outputs, ...(await planChanged(call, body, services)) };
}

/** @throws GatewayError MEDIA_DELETED if a file that the step takes no longer exists */
async function throwIfFileMissing(
  { job, step, approval }: WaitingCall,
  { storage, jobOverview }: DecisionServices,
): Promise<void> {
  const plan = await jobOverview.readPlan(job);
  const planned = plan?.steps?.find(({ id }) => id === step.id);
  const [first, count] = planned?.calls ?? [0, 0];
  const inputs = (plan?.calls ?? [])
    .filter(({ index }) => index >= first && index < first + count)
    .flatMap(({ routes }) => routes.flatMap(({ input }) => listStorageKeys(input)));
  const taken = (job.steps ?? [])
    .filter(({ id }) => step.after.includes(id))
    .flatMap((source) => listFiles(source, approval).map(({ artifact }) => artifact.storageKey));
  const keys = [...new Set([...inputs, ...taken])];
  const sizes = await Promise.all(keys.map((key) => storage.size(key)));
  const missing = keys.filter((_, index) => sizes[index] === null);
  if (missing.length === 0) return;
  const message = `a file of the step was deleted or has expired: ${missing.join(', ')}; approve it with another one in body`;
  throw new GatewayError('MEDIA_DELETED', `${step.id}: ${message}`, {
    details: [{ path: `steps.${step.id}`, message }],
  });
}

/** Returns the keys of the stored files that the input of a call contains. */
function listStorageKeys(value: Json): string[] {
  if (typeof value === 'object' && value !== null)
    return Object.values(value).flatMap(listStorageKeys);
  const key = typeof value === 'string' ? parseStorageReference(value) : null;
  return key === null ? [] : [key];
}

/** Replaces references to chosen outputs by references to the outputs that the decision names. */
function chooseOutputs(
  body: JsonObject,
  { job, approval, decision: { outputs: sent = {} } }: WaitingCall,
): { body: JsonObject; outputs: Record<string, number> } {
  const outputs = new Map<string, number>();
  const choose = (from: string): number => {
    const source = job.steps?.find(({ id }) => id === from);
    const delivered = source ? listFiles(source, approval).map(({ output }) => output) : [];
    const chosen = Object.hasOwn(sent, from) ? sent[from] : undefined;
    const index = chosen ?? (delivered.length === 1 ? delivered[0] : undefined);
    if (index !== undefined && delivered.includes(index)) {
      outputs.set(from, index);
      return index;
    }
    const received = chosen === undefined ? 'is required' : `received ${chosen}`;
    const message = `must be the index of a delivered output: ${delivered.join(', ') || 'there is none'} (${received})`;
    throw fieldError('INVALID_REQUEST', `outputs.${from}`, message);
  };
  const visit = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(visit);
    if (!isRecord(value)) return value;
    if (typeof value['$from'] === 'string' && value['output'] === 'chosen')
      return { ...value, output: choose(value['$from']) };
    return visitObject(value);
  };
  const visitObject = (value: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(value).map(([name, item]) => [name, visit(item)]));
  const chosenBody = visitObject(body);
  const [unused] = Object.keys(sent).filter((from) => !outputs.has(from));
  if (unused !== undefined) {
    const message = `must be absent: the step takes no chosen output of ${unused}`;
    throw fieldError('INVALID_REQUEST', `outputs.${unused}`, message);
  }
  return { body: chosenBody, outputs: Object.fromEntries(outputs) };
}

/** Plans a step with a changed body, whose inputs are the results of the earlier steps. */
async function planChanged(
  { job, step, approval, caller, countCopied, requestId }: WaitingCall,
  body: JsonObject,
  services: DecisionServices,
): Promise<Required<Pick<Approved, 'body' | 'changed' | 'discard'>>> {
  const { config, storage, jobOverview } = services;
  const reserved = await jobOverview.readPlan(job);
  if (!reserved) throw new GatewayError('NOT_AWAITING');
  const sources = (job.steps ?? []).filter(({ id }) => step.after.includes(id));
  const documents = await loadDocuments(storage, approval.outputs);
  const taken = new Map<string, TakenStep>();
  for (const source of sources) {
    const delivered = { job: { ...job, outputs: approval.outputs, documents }, step: source };
    taken.set(source.id, await takeStep(delivered, { storage, texts: { areChecked: true } }));
  }
  const capability = withTaken(taken);
  const request = {
    steps: [
      ...sources.map(({ id, use }) => ({ id, use, body: {} })),
      { id: step.id, use: step.use, body },
    ],
  };
  const parsedRequest = { request, webhook: null, metadata: null };
  const { organizationId } = caller;
  const copies = services.copies.forRequest({
    organizationId,
    jobId: job.id,
    countBytes: countCopied,
  });
  try {
    const studioRequest = { caller, capability, parsedRequest, countCopied };
    const unread = authorizeRequest(studioRequest);
    const { draft: unpriced } = await draftRequest(studioRequest, unread, { ...services, copies });
    const draft = await measurePrices({ config, storage, copies }, unpriced);
    // A later row of the price book does not change the price of an accepted job.
    const acceptedAtMs = reserved.pricedAtMs ?? job.createdAtMs;
    const prices = await services.priceBook.at(job.organizationId, acceptedAtMs);
    const options = { metadata: null, requestId, caller, capability, prices };
    const plan = completePlan(config, { ...options, request, draft, jobId: job.id });
    const shown = Array.isArray(plan.request['steps']) ? plan.request['steps'].at(-1) : null;
    return {
      // oxlint-disable-next-line no-unsafe-type-assertion -- the plan contains the request
      body: asRecord(asRecord(shown)['body']) as JsonObject,
      changed: fitIntoJob(plan, step.id, reserved),
      discard: copies.discard,
    };
  } catch (error) {
    await copies.discard();
    throw removePath(error, `steps.${sources.length}.`);
  }
}

/** Returns an error with paths in the request of the decision. */
function removePath(error: unknown, prefix: string): unknown {
  if (!(error instanceof GatewayError) || !error.message.includes(prefix)) return error;
  const details = error.details?.map(({ path, message }) => ({
    path: path.replace(prefix, ''),
    message: message.replaceAll(prefix, ''),
  }));
  return details
    ? invalidFieldsError(error.code, details)
    : new GatewayError(error.code, error.message.replaceAll(prefix, ''), { cause: error });
}

/** Returns the most that a step is charged, in micro-credits. */
const sumMost = ({ priceMicro, allowanceMicro = 0 }: PipelineStep): number =>
  priceMicro + allowanceMicro;

/**
 * Checks the price and the maximum charge of a step, each by itself, because what a provider's report may
 * add to the price is not reserved. @throws GatewayError PRICE_LIMIT_EXCEEDED
 */
function throwIfDearer(step: PipelineStep, reserved: PipelineStep): void {
  const isPriceHigher = step.priceMicro > reserved.priceMicro;
  if (!isPriceHigher && sumMost(step) <= sumMost(reserved)) return;
  const [required, maximum] = [step, reserved].map((one) =>
    creditsFromMicro(isPriceHigher ? one.priceMicro : sumMost(one)),
  );
  const message = `costs ${required} credits; at most ${maximum} are reserved for the step ${step.id}`;
  throw new GatewayError('PRICE_LIMIT_EXCEEDED', `body: ${message}`, {
    details: [{ path: 'body', message }],
    body: { required, maximum },
  });
}

/**
 * Fits a step that was planned alone into the plan of its job.
 * @throws GatewayError PRICE_LIMIT_EXCEEDED, or INVALID_REQUEST if later steps could not run
 */
function fitIntoJob(
  plan: JobPlan,
  id: string,
  reserved: JobPlan,
): NonNullable<Decision['changed']> {
  const find = ({ steps = [] }: JobPlan): PipelineStep | undefined =>
    steps.find((step) => step.id === id);
  const [step, old] = [find(plan), find(reserved)];
  assert(step && old, 'both plans have the step');
  throwIfDearer(step, old);
  const [first, count] = old.calls;
  const toJobIndex = (index: number): number =>
    index < count ? first + index : (old.assembledIndex ?? first);
  const outputs = step.outputs.map((output) => ({
    ...output,
    callIndex: toJobIndex(output.callIndex),
  }));
  const isSame = plan.calls.length === count && step.assembly === old.assembly;
  const needed = (reserved.steps ?? []).flatMap(({ references }) =>
    references.filter(({ from, takes }) => from === id && takes === 'file'),
  );
  const isMissing = needed.some(({ output, choices = [output] }) =>
    choices.some(
      (one) =>
        !outputs.some(
          ({ callIndex, artifactIndex }) =>
            callIndex === one.callIndex && artifactIndex === one.artifactIndex,
        ),
    ),
  );
  if (!isSame || isMissing) {
    const message = `must keep the number of results that later steps take and of requests to the provider (${count}, received ${plan.calls.length})`;
    throw fieldError('INVALID_REQUEST', 'body', message);
  }
  const { after, priceMicro, allowanceMicro, assembledIndex, approval, deadlineMs } = old;
  const kept = {
    after,
    priceMicro,
    assembledIndex,
    deadlineMs,
    ...(allowanceMicro !== undefined && { allowanceMicro }),
    ...(approval && { approval }),
  };
  return {
    step: { ...step, ...kept, calls: [first, count], outputs },
    calls: plan.calls.map((call, index) => ({
      ...call,
      index: first + index,
      inputFrom: call.inputFrom && {
        ...call.inputFrom,
        callIndex: first + call.inputFrom.callIndex,
      },
    })),
  };
}
