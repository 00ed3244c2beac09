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
} from '../../domain/draft-plan.ts';
import { assert, invalidFieldsError, prefixError } from '../../domain/errors.ts';
import { isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import { parseWith } from '../../domain/parsing.ts';
import { recordingSuffix, type StepReference } from '../../domain/pipeline-plan.ts';
import { toStorageReference } from '../../storage/inputs/inputs.ts';
import { findByUse, useOf, type Capability, type Medium } from '../capabilities/capability.ts';
import { capabilities } from '../capabilities/capability-registry.ts';
import {
  isPlaceholderPlan,
  replaceReferences,
  showReferences,
  type EarlierStep,
  type FoundReference,
  type TakenStep,
} from './references.ts';
import { findOpenPrice } from './step-prices.ts';
import type { StepOutput } from '../../domain/job-record.ts';

/** Parsed request of a pipeline. The bodies of its steps are not parsed yet. */
export interface PipelineRequest {
  steps: {
    id: string;
    use: string;
    body: JsonObject;
    maxCredits?: number | undefined;
    approve?: true | { withinSeconds: number } | undefined;
  }[];
  maxCredits?: number | undefined;
  async?: boolean | undefined;
  /** Job whose delivered steps are taken over; only in requests that resume a pipeline. */
  resumes?: string | undefined;
}

/** Seconds for which a step waits for a decision, unless the request says otherwise. */
const defaultSeconds = 86_400;

/** Steps that a pipeline takes over from an earlier job, by step id. */
export type TakenSteps = ReadonlyMap<string, TakenStep>;

interface ParsedStep {
  /** Step of the request, with its references. */
  step: PipelineRequest['steps'][number];
  capability: Capability;
  bodyPath: string;
  /** Body with tokens, parsed by the capability. */
  body: JsonObject;
  references: FoundReference[];
  maxCredits: number | null;
}

/** Call indexes below 0 stand for joined artifacts until the number of calls is known. */
const joinedIndex = (stepIndex: number): number => -1 - stepIndex;

/** Step with the plan of its capability. */
interface PlannedStep {
  parsed: ParsedStep;
  plan: DraftPlan;
  /** Index of its first call. */
  first: number;
  hasCallerMedia: boolean;
}

/**
 * Drafts all steps of a pipeline.
 * @throws GatewayError that names the field by its path in the request
 */
export function draftPipeline(
  request: PipelineRequest,
  taken: TakenSteps = new Map<string, TakenStep>(),
): DraftPlan {
  throwIfRepeatedId(request);
  const earlier = new Map<string, EarlierStep>();
  const calls: DraftCall[] = [];
  const inputs: PlanInput[] = [];
  const steps: DraftStep[] = [];
  const withCallerMedia = new Set<string>();
  const planned: PlannedStep[] = [];
  for (const [index, { id, use, approve }] of request.steps.entries()) {
    const capability = findByUse(capabilities, use);
    assert(capability, 'the schema of the request has checked the step');
    const takenStep = taken.get(id);
    if (takenStep) {
      earlier.set(id, { id, capability, outputs: takenStep.files, firstCall: 0, taken: takenStep });
      steps.push(draftTaken(id, capability, takenStep));
      continue;
    }
    const parsed = parseStep(request, index, { capability, earlier });
    const { references, bodyPath } = parsed;
    const plan = planStep(parsed);
    const tokens = new Set(references.map(({ token }) => token));
    const ownInputs = (plan.inputs ?? []).filter(({ url }) => !tokens.has(url));
    inputs.push(...ownInputs.map((input) => ({ ...input, field: `${bodyPath}.${input.field}` })));
    const after = [...new Set(references.map(({ step }) => step.id))];
    const hasCallerMedia =
      ownInputs.length > 0 || after.some((other) => withCallerMedia.has(other));
    if (hasCallerMedia) withCallerMedia.add(id);
    const first = calls.length;
    const step = { parsed, plan, first, hasCallerMedia };
    planned.push(step);
    calls.push(...listCalls(step));
    const outputs = listOutputs(plan, first, index);
    earlier.set(id, { id, capability, outputs, firstCall: first });
    steps.push({
      id,
      use,
      type: capability.type,
      medium: toMedium(capability),
      model: plan.model,
      calls: [first, plan.calls.length],
      assembly: plan.assembly ?? null,
      outputs,
      after: listSources(parsed),
      references: references.map((found) => toStepReference(found, parsed, plan.model)),
      maxCredits: parsed.maxCredits,
      ...(approve && {
        approval: { withinMs: 1000 * (approve === true ? defaultSeconds : approve.withinSeconds) },
      }),
    });
  }
  setFinalIndexes(steps, calls.length);
  const { maxCredits, resumes } = request;
  return withRecordings(planned, {
    model: null,
    calls,
    inputs,
    steps,
    ...(maxCredits !== undefined && { maxCredits }),
    ...(resumes !== undefined && { parentJobId: resumes }),
  });
}

/** Adds the recordings of the caller to a draft, whose calls depend on them. */
function withRecordings(planned: readonly PlannedStep[], draft: DraftPlan): DraftPlan {
  const open = planned.flatMap((step) => {
    const { plan, parsed } = step;
    return listOwnRecordings(parsed, plan).map(({ field, source }) => ({
      step,
      source: { field: `${parsed.bodyPath}.${field}`, source },
    }));
  });
  if (open.length === 0) return draft;
  return {
    ...draft,
    recordings: {
      sources: open.map(({ source }) => source),
      complete(found) {
        const calls = [...draft.calls];
        for (const step of new Set(open.map((other) => other.step))) {
          const own = found.filter((_, index) => open[index]?.step === step);
          const plan = completePlan(step.parsed, step.plan, own);
          calls.splice(step.first, plan.calls.length, ...listCalls({ ...step, plan }));
        }
        return { ...draft, calls };
      },
    },
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
    for (const { output, choices = [] } of step.references) [output, ...choices].forEach(toJoined);
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

/** Drafts a step that takes over the outputs of an earlier job, at the price 0. */
function draftTaken(id: string, capability: Capability, taken: TakenStep): DraftStep {
  const { jobId, model, after, files, outputs } = taken;
  return {
    id,
    use: useOf(capability),
    type: capability.type,
    medium: toMedium(capability),
    model,
    calls: [0, 0],
    assembly: null,
    outputs: files,
    taken: {
      jobId,
      outputs: outputs.map(({ line: _line, ...output }) => ({
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

function parseStep(
  { steps }: PipelineRequest,
  index: number,
  { capability, earlier }: { capability: Capability; earlier: Map<string, EarlierStep> },
): ParsedStep {
  const step = steps[index];
  assert(step, 'the step is one of the request');
  const bodyPath = `steps.${index}.body`;
  const { id, maxCredits = null } = step;
  const ids = steps.map((other) => other.id);
  const isApproved = step.approve !== undefined;
  const context = { capability, id, ids, earlier, bodyPath, isApproved };
  const { body, references } = replaceReferences(step.body, context);
  const parsed = { step, capability, bodyPath, body, references, maxCredits };
  return { ...parsed, body: runStep(parsed, () => parseWith(capability.request, body)) };
}

/** Runs a function whose errors are about the body of a step. */
function runStep<Result>(
  { bodyPath, references }: Pick<ParsedStep, 'bodyPath' | 'references'>,
  run: () => Result,
): Result {
  try {
    return run();
  } catch (error) {
    throw prefixError(error, bodyPath, (text) => showReferences(text, references));
  }
}

/** Returns the recordings of a step that are not results of earlier steps. */
const listOwnRecordings = ({ references }: ParsedStep, { recordings }: DraftPlan) =>
  (recordings?.sources ?? []).filter(
    ({ source }) => !references.some(({ token }) => token === source),
  );

/** Plans a step by its capability. A recording of an earlier step is not one to find. */
function planStep(parsed: ParsedStep): DraftPlan {
  const plan = runStep(parsed, () => parsed.capability.plan(parsed.body));
  const hasOnlyResults = plan.recordings && listOwnRecordings(parsed, plan).length === 0;
  return hasOnlyResults ? completePlan(parsed, plan, []) : plan;
}

/** Completes the plan of a step with recordings: those of the caller, and those of earlier steps. */
function completePlan(
  parsed: ParsedStep,
  { recordings }: DraftPlan,
  found: readonly Recording[],
): DraftPlan {
  assert(recordings, 'the step has recordings');
  const remaining = [...found];
  const all = recordings.sources.flatMap(({ source }) => {
    const reference = parsed.references.find(({ token }) => token === source);
    return reference ? [createRecording(reference)] : remaining.splice(0, 1);
  });
  return runStep(parsed, () => recordings.complete(all));
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

/** Returns the calls of a step as calls of the pipeline. */
const listCalls = (step: PlannedStep): DraftCall[] =>
  step.plan.calls.map((call) => toPipelineCall(call, step));

/** Turns a call of a step into one of the pipeline. */
function toPipelineCall(
  call: DraftCall,
  { first, parsed, plan, hasCallerMedia }: PlannedStep,
): DraftCall {
  const { references, bodyPath } = parsed;
  const { quantityMax, unitPriceUsd: price, output, inputFrom, ...rest } = call;
  const model = output.model ?? plan.model;
  const open = findOpenPrice(call, references);
  return {
    ...rest,
    // Results of earlier steps are measured by this gateway, recordings of the caller only by their
    // containers.
    ...(quantityMax !== undefined && !open && { quantityMax }),
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
    ...(open && { open }),
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
    ...(reference.output === 'chosen' && {
      choices: step.outputs.map((choice) => ({
        callIndex: choice.callIndex,
        artifactIndex: choice.artifactIndex,
      })),
    }),
    ...(kind === 'text' && {
      text: { name: reference.field ?? '', ...findLengths(capability, path, model) },
    }),
  };
}

const lengths = z.object({ minLength: z.number().default(1), maxLength: z.number().default(5000) });
type Lengths = z.infer<typeof lengths>;

/** Allowed numbers of characters of the fields that take a text, by job type and field. */
const textLengths: ReadonlyMap<string, ReadonlyMap<string, Lengths>> = new Map(
  capabilities.map(({ type, request, takes = {} }) => {
    const { properties = {} } = z.toJSONSchema(request, { io: 'input', unrepresentable: 'any' });
    const fields = Object.keys(takes).filter((field) => takes[field]?.includes('text'));
    return [type, new Map(fields.map((field) => [field, lengths.parse(properties[field])]))];
  }),
);

/** Returns the allowed number of characters of a text field of a model. */
function findLengths({ type, models }: Capability, field: string, model: string | null) {
  const allowed = textLengths.get(type)?.get(field);
  assert(allowed, `the field ${field} takes no text`);
  const rule = models?.find(({ id }) => id === model)?.parameters[field];
  return {
    min: allowed.minLength,
    max: Math.min(allowed.maxLength, rule?.charactersMax ?? Infinity),
  };
}
