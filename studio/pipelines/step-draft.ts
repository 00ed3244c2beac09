/**
 * Drafts the steps of a pipeline: each by the planner of its own capability, with tokens in place of
 * the results of earlier steps. The calls of all steps form one draft plan.
 */
import { z } from 'zod';
import type {
  DraftCall,
  DraftPlan,
  DraftStep,
  PlanInput,
  Recording,
  RecordingSource,
} from '../../domain/draft-plan.ts';
import { assert, invalidFieldsError } from '../../domain/errors.ts';
import { isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import { parseWith } from '../../domain/parsing.ts';
import { recordingSuffix, type StepReference } from '../../domain/pipeline-plan.ts';
import { toStorageReference } from '../../storage/inputs/inputs.ts';
import type { Capability, Medium } from '../capabilities/capability.ts';
import {
  isPlaceholderPlan,
  prefixError,
  replaceReferences,
  type EarlierStep,
  type FoundReference,
  type TakenStep,
} from './references.ts';
import { findOpenPrice } from './step-prices.ts';
import type { StepOutput } from '../../domain/job-record.ts';

/** Parsed request of a pipeline. The bodies of its steps are not parsed yet. */
export interface PipelineRequest {
  steps: { id: string; use: string; body: JsonObject; maxCredits?: number | undefined }[];
  maxCredits?: number | undefined;
  async?: boolean | undefined;
  /** Job whose delivered steps are taken over; only in requests that resume a pipeline. */
  resumes?: string | undefined;
}

/** Steps that a pipeline takes over from an earlier job, by step id. */
export type TakenSteps = ReadonlyMap<string, TakenStep>;
const noneTaken: TakenSteps = new Map();

/** Returns the name with which steps select a capability, e.g. `image/generate`. */
export const getUse = ({ path }: Pick<Capability, 'path'>): string => path.slice('/studio/'.length);

interface ParsedStep {
  index: number;
  /** Step of the request, with its references. */
  step: PipelineRequest['steps'][number];
  id: string;
  capability: Capability;
  bodyPath: string;
  /** Body with tokens, parsed by the capability. */
  body: JsonObject;
  references: FoundReference[];
  maxCredits: number | null;
}

/** Call indexes below 0 stand for joined artifacts until the number of calls is known. */
const joinedIndex = (stepIndex: number): number => -1 - stepIndex;

/**
 * Drafts all steps of a pipeline. `recordings` are those of the steps that refer to one by URL or
 * file id, in the order of the steps (`listStepRecordings`).
 * @throws GatewayError that names the field by its path in the request
 */
export function draftPipeline(
  capabilities: readonly Capability[],
  request: PipelineRequest,
  {
    recordings = [],
    taken = noneTaken,
  }: { recordings?: readonly Recording[] | undefined; taken?: TakenSteps } = {},
): DraftPlan {
  throwIfRepeatedId(request);
  const earlier = new Map<string, EarlierStep>();
  const calls: DraftCall[] = [];
  const inputs: PlanInput[] = [];
  const steps: DraftStep[] = [];
  const withCallerMedia = new Set<string>();
  const remaining = [...recordings];
  for (const [index, { id: stepId }] of request.steps.entries()) {
    const takenStep = taken.get(stepId);
    if (takenStep) {
      const capability = findUsed(capabilities, request, index);
      earlier.set(stepId, toEarlier(stepId, capability, takenStep));
      steps.push(draftTaken(stepId, capability, takenStep));
      continue;
    }
    const parsed = parseStep(request, index, { capabilities, earlier });
    const { id, capability, references, bodyPath } = parsed;
    const plan = planStep(parsed, remaining);
    const tokens = new Set(references.map(({ token }) => token));
    const ownInputs = (plan.inputs ?? []).filter(({ url }) => !tokens.has(url));
    inputs.push(...ownInputs.map((input) => ({ ...input, field: `${bodyPath}.${input.field}` })));
    const after = [...new Set(references.map(({ step }) => step.id))];
    const hasCallerMedia =
      ownInputs.length > 0 || after.some((other) => withCallerMedia.has(other));
    if (hasCallerMedia) withCallerMedia.add(id);
    const first = calls.length;
    calls.push(
      ...plan.calls.map((call) => toPipelineCall(call, { first, parsed, plan, hasCallerMedia })),
    );
    const outputs = listOutputs(plan, first, index);
    earlier.set(id, { id, capability, outputs, firstCall: first });
    steps.push({
      id,
      use: getUse(capability),
      type: capability.type,
      medium: toMedium(capability),
      model: plan.model,
      calls: [first, plan.calls.length],
      assembly: plan.assembly ?? null,
      outputs,
      after: listSources(parsed),
      references: references.map((found) => toStepReference(found, parsed, plan.model)),
      maxCredits: parsed.maxCredits,
    });
  }
  setFinalIndexes(steps, calls.length);
  const { maxCredits, resumes } = request;
  return {
    model: null,
    calls,
    inputs,
    steps,
    ...(maxCredits !== undefined && { maxCredits }),
    ...(resumes !== undefined && { parentJobId: resumes }),
  };
}

/** Returns the ids of all steps to which a step refers, also of those that are taken over. */
function listSources({ step: { body } }: ParsedStep): string[] {
  const ids = new Set<string>();
  const visit = (value: Json): void => {
    if (isRecord(value) && typeof value['$from'] === 'string') ids.add(value['$from']);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(visit);
  };
  visit(body);
  return [...ids];
}

/**
 * Sets the call indexes of joined artifacts, which follow those of the calls, and of outputs that
 * are taken over, which follow these.
 */
function setFinalIndexes(steps: readonly DraftStep[], callCount: number): void {
  const toJoined = (output: { callIndex: number }): void => {
    if (output.callIndex < 0) output.callIndex = callCount - 1 - output.callIndex;
  };
  let nextIndex = callCount + steps.length;
  for (const step of steps) {
    for (const { output } of step.references) toJoined(output);
    if (!step.taken) {
      step.outputs.forEach(toJoined);
      continue;
    }
    const first = nextIndex;
    const { outputs, jobId } = step.taken;
    const indexes = new Map(outputs.map(({ callIndex }, index) => [callIndex, first + index]));
    const renumber = <Output extends { callIndex: number }>(output: Output): Output => ({
      ...output,
      callIndex: indexes.get(output.callIndex) ?? first,
    });
    step.taken = { jobId, outputs: outputs.map(renumber) };
    step.outputs = step.outputs.map(renumber);
    step.calls = [first, outputs.length];
    nextIndex += outputs.length;
  }
}

const toEarlier = (id: string, capability: Capability, taken: TakenStep): EarlierStep => ({
  id,
  capability,
  outputs: taken.files,
  firstCall: 0,
  taken,
});

/** Drafts a step that takes over the outputs of an earlier job, at the price 0. */
function draftTaken(id: string, capability: Capability, taken: TakenStep): DraftStep {
  const { jobId, model, after, files, outputs } = taken;
  return {
    id,
    use: getUse(capability),
    type: capability.type,
    medium: toMedium(capability),
    model,
    calls: [0, 0],
    assembly: null,
    outputs: files,
    taken: {
      jobId,
      outputs: outputs.map((output) => ({
        ...output,
        chargedMicro: 0,
        takenFrom: output.takenFrom ?? jobId,
      })),
    },
    after,
    references: [],
    maxCredits: null,
  };
}

function toMedium({ medium }: Capability): Medium {
  assert(medium !== 'mixed', 'a step of a pipeline is no pipeline');
  return medium;
}

/** Returns the recordings to which steps refer by URL or file id, in the order of the steps. */
export function listStepRecordings(
  capabilities: readonly Capability[],
  request: PipelineRequest,
  taken: TakenSteps = noneTaken,
): RecordingSource[] {
  throwIfRepeatedId(request);
  const earlier = new Map<string, EarlierStep>();
  const sources: RecordingSource[] = [];
  for (const [index, { id: stepId }] of request.steps.entries()) {
    const takenStep = taken.get(stepId);
    if (takenStep) {
      const used = findUsed(capabilities, request, index);
      earlier.set(stepId, toEarlier(stepId, used, takenStep));
      continue;
    }
    const parsed = parseStep(request, index, { capabilities, earlier });
    const { id, capability, bodyPath, references } = parsed;
    const tokens = new Set(references.map(({ token }) => token));
    for (const { field, source } of listRecordings(parsed)) {
      if (!tokens.has(source)) sources.push({ field: `${bodyPath}.${field}`, source });
    }
    const plan = planStep(parsed, []);
    earlier.set(id, { id, capability, outputs: listOutputs(plan, 0, index), firstCall: 0 });
  }
  return sources;
}

function throwIfRepeatedId({ steps }: PipelineRequest): void {
  const ids = steps.map(({ id }) => id);
  const details = ids.flatMap((id, index) =>
    ids.indexOf(id) < index
      ? [
          {
            path: `steps.${index}.id`,
            message: `must be unique; steps.${ids.indexOf(id)} has the same id`,
          },
        ]
      : [],
  );
  if (details.length > 0) throw invalidFieldsError('INVALID_REQUEST', details);
}

function findUsed(
  capabilities: readonly Capability[],
  { steps }: Pick<PipelineRequest, 'steps'>,
  index: number,
): Capability {
  const capability = capabilities.find((candidate) => getUse(candidate) === steps[index]?.use);
  assert(capability, 'the schema of the request has checked the step');
  return capability;
}

function parseStep(
  { steps }: PipelineRequest,
  index: number,
  {
    capabilities,
    earlier,
  }: { capabilities: readonly Capability[]; earlier: Map<string, EarlierStep> },
): ParsedStep {
  const step = steps[index];
  assert(step, 'the step is one of the request');
  const capability = findUsed(capabilities, { steps }, index);
  const bodyPath = `steps.${index}.body`;
  const { id, maxCredits = null } = step;
  const ids = steps.map((other) => other.id);
  const { body, references } = replaceReferences(step.body, {
    capability,
    id,
    ids,
    earlier,
    bodyPath,
  });
  try {
    const parsedBody = parseWith(capability.request, body);
    return { index, id, step, capability, bodyPath, body: parsedBody, references, maxCredits };
  } catch (error) {
    throw prefixError(error, bodyPath, references);
  }
}

function listRecordings({ capability, body, bodyPath, references }: ParsedStep): RecordingSource[] {
  try {
    return capability.recordings?.(body) ?? [];
  } catch (error) {
    throw prefixError(error, bodyPath, references);
  }
}

/** Plans a step by its capability. Removes the recordings of the step from `remaining`. */
function planStep(parsed: ParsedStep, remaining: Recording[]): DraftPlan {
  const { capability, body, bodyPath, references } = parsed;
  const recordings = listRecordings(parsed).flatMap(({ source }) => {
    const reference = references.find(({ token }) => token === source);
    return reference ? [createRecording(reference)] : remaining.splice(0, 1);
  });
  try {
    return capability.plan(body, recordings);
  } catch (error) {
    throw prefixError(error, bodyPath, references);
  }
}

/** Creates a recording of one second that stands for the output of an earlier step. */
function createRecording({ token, output }: FoundReference): Recording {
  const type =
    output?.medium === 'video'
      ? { extension: 'mp4', contentType: 'video/mp4' }
      : { extension: 'mp3', contentType: 'audio/mpeg' };
  const storageKey = token + recordingSuffix;
  return { kind: 'file', storageKey, durationSeconds: 1, sizeBytes: 0, type };
}

interface StepPlan {
  first: number;
  parsed: ParsedStep;
  plan: DraftPlan;
  hasCallerMedia: boolean;
}

/** Turns a call of a step into one of the pipeline. */
function toPipelineCall(
  call: DraftCall,
  { first, parsed, plan, hasCallerMedia }: StepPlan,
): DraftCall {
  const { references, bodyPath } = parsed;
  const { quantityMax: _, unitPriceUsd: price, output, inputFrom, ...rest } = call;
  const model = output.model ?? plan.model;
  return {
    ...rest,
    // The price of a step is a maximum, so reports of more units than planned are not charged.
    unitPriceUsd:
      typeof price === 'number'
        ? price
        : {
            ...price,
            inputs: price.inputs.map((input) => ({
              ...input,
              field: `${bodyPath}.${input.field}`,
            })),
          },
    output: {
      ...output,
      ...(model !== null && { model }),
      ...(hasCallerMedia && { hasCallerMedia: true as const }),
    },
    routes: call.routes.map((route) => ({ ...route, input: markFiles(route.input, references) })),
    ...(inputFrom && { inputFrom: { ...inputFrom, callIndex: first + inputFrom.callIndex } }),
    ...findOpenPrice(call, references),
  };
}

/** Replaces tokens by storage references with tokens, and placeholder plans by tokens. */
function markFiles(input: JsonObject, references: readonly FoundReference[]): JsonObject {
  const mark = (value: Json): Json => {
    const plan = references.find(
      ({ kind, token }) => kind === 'compositionPlan' && isPlaceholderPlan(value, token),
    );
    if (plan) return plan.token;
    if (Array.isArray(value)) return value.map(mark);
    if (isRecord(value)) return markFiles(value, references);
    const isFile = references.some(({ token, output }) => output && token === value);
    return isFile && typeof value === 'string' ? referencePrefix + value : value;
  };
  return Object.fromEntries(
    Object.entries(input).map(([name, value]): [string, Json] => [name, mark(value)]),
  );
}

const referencePrefix = toStorageReference('');

/** Lists the outputs of a step that later steps may take. */
function listOutputs(plan: DraftPlan, first: number, stepIndex: number): StepOutput[] {
  if (plan.assembly) {
    return [{ medium: 'audio', callIndex: joinedIndex(stepIndex), artifactIndex: 0 }];
  }
  const isInput = (index: number): boolean =>
    plan.calls.some(({ inputFrom }) => inputFrom?.callIndex === index);
  return plan.calls.flatMap(({ meter = 'artifact', quantity, output }, index) => {
    const { medium, expected } = output;
    if (medium === 'json' || isInput(index)) return [];
    const sound = expected?.hasAudio === undefined ? {} : { hasAudio: expected.hasAudio };
    return Array.from({ length: meter === 'artifact' ? quantity : 1 }, (_, artifactIndex) => ({
      medium,
      callIndex: first + index,
      artifactIndex,
      ...sound,
    }));
  });
}

function toStepReference(
  found: FoundReference,
  { capability, bodyPath }: ParsedStep,
  model: string | null,
): StepReference {
  const { token, path, kind, step, output, reference } = found;
  const takes = kind === 'text' ? 'text' : kind === 'compositionPlan' ? 'composition' : 'file';
  const { callIndex, artifactIndex } = output ?? { callIndex: step.firstCall, artifactIndex: 0 };
  return {
    token,
    field: `${bodyPath}.${path}`,
    from: step.id,
    takes,
    output: { callIndex, artifactIndex },
    ...(kind === 'text' && {
      text: { name: reference.field ?? '', ...findLengths(capability, path, model) },
    }),
  };
}

const lengths = z.object({ minLength: z.number().default(1), maxLength: z.number().default(5000) });

/** Returns the allowed number of characters of a text field of a model. */
function findLengths(capability: Capability, field: string, model: string | null) {
  const { properties = {} } = z.toJSONSchema(capability.request, {
    io: 'input',
    unrepresentable: 'any',
  });
  const schema = lengths.parse(isRecord(properties[field]) ? properties[field] : {});
  const rule = capability.models?.find(({ id }) => id === model)?.parameters[field];
  const max = Math.min(schema.maxLength, rule?.charactersMax ?? Infinity);
  return { min: schema.minLength, max };
}
