/**
 * References of pipeline steps to the results of earlier steps: `{"$from": id, "output": n}` and
 * `{"$from": id, "field": name}`. A reference is replaced by a random token before the capability
 * parses and plans the body of the step.
 */
import { z } from 'zod';
import {
  GatewayError,
  invalidFieldsError,
  prefixError,
  type ErrorDetail,
} from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import { parseWith } from '../../domain/parsing.ts';
import type { CallOutputs } from '../../domain/job-plan.ts';
import type { StepOutput } from '../../domain/job-record.ts';
import { yieldsOf, type Capability, type Handover } from '../capabilities/capability.ts';

/** Schema of a reference. */
export const referenceSchema = z
  .strictObject({
    $from: z.string().min(1).max(64).meta({ description: 'Id of an earlier step.' }),
    output: z
      .union([z.int().min(0).max(99), z.literal('chosen')])
      .optional()
      .meta({
        description:
          'Index of the output, for a field that takes a file; defaults to 0. `chosen`: the output that the decision about this step names, if the step has `approve`.',
      }),
    field: z.string().min(1).max(64).optional().meta({
      description: 'Field of the result, for a field that takes a text.',
    }),
  })
  .meta({ id: 'StepReference', description: 'Reference to the result of an earlier step.' });
type Reference = z.infer<typeof referenceSchema>;

/** Drafted step that later steps may refer to. */
export interface EarlierStep {
  id: string;
  capability: Capability;
  outputs: StepOutput[];
  firstCall: number;
  /** Results that the step takes over from an earlier job; absent if the step runs. */
  taken?: TakenStep;
}

/** Results of a step of an earlier job. */
export interface TakenStep {
  model: string | null;
  jobId: string;
  after: string[];
  /** Outputs, with their call indexes in the earlier job. */
  outputs: CallOutputs[];
  files: StepOutput[];
  /** Returns the URL of an output; null if it was not delivered. */
  urlOf: (output: StepOutput) => string | null;
  /** Returns a text of the result; null if it has none of this name. */
  readText: (name: string) => string | null;
}

/** Reference with the token that stands for it. */
export interface FoundReference {
  token: string;
  /** Path below the body, e.g. `imageUrls.0`. */
  path: string;
  reference: Reference;
  kind: Handover;
  step: EarlierStep;
  output: StepOutput | null;
}

interface StepContext {
  /** True if the step waits for a decision, which may choose outputs. */
  isApproved: boolean;
  capability: Capability;
  id: string;
  /** Ids of all steps of the request. */
  ids: readonly string[];
  earlier: ReadonlyMap<string, EarlierStep>;
  /** Path of the body in the request, e.g. `steps.1.body`. */
  bodyPath: string;
}

const isReference = (value: unknown): boolean => isRecord(value) && Object.hasOwn(value, '$from');

/**
 * Replaces the references in the body of a step by tokens. Returns the body and the references.
 * @throws GatewayError INVALID_REQUEST that names each invalid reference
 */
export function replaceReferences(
  body: JsonObject,
  context: StepContext,
): { body: JsonObject; references: FoundReference[] } {
  const references: FoundReference[] = [];
  const details: ErrorDetail[] = [];
  function visit(value: Json, path: string[]): Json {
    if (isReference(value)) {
      try {
        const found = findReference(value, path, context);
        if (found.step.taken) return resolveTaken(found, found.step.taken, context.bodyPath);
        references.push(found);
        return found.kind === 'compositionPlan' ? createPlaceholderPlan(found.token) : found.token;
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        details.push(...(error.details ?? []));
        return null;
      }
    }
    if (Array.isArray(value)) return value.map((item, index) => visit(item, [...path, `${index}`]));
    if (!isRecord(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, item]): [string, Json] => [
        name,
        visit(item, [...path, name]),
      ]),
    );
  }
  const entries = Object.entries(body).map(([name, value]): [string, Json] => [
    name,
    visit(value, [name]),
  ]);
  if (details.length > 0) throw invalidFieldsError('INVALID_REQUEST', details.slice(0, 20));
  return { body: Object.fromEntries<Json>(entries), references };
}

function findReference(value: Json, path: string[], context: StepContext): FoundReference {
  const { capability, bodyPath } = context;
  const fullPath = [bodyPath, ...path].join('.');
  const fail = (message: string, field?: string): never => {
    const at = field === undefined ? fullPath : `${fullPath}.${field}`;
    throw invalidFieldsError('INVALID_REQUEST', [{ path: at, message }]);
  };
  const takes = capability.takes ?? {};
  const [name = ''] = path;
  const isItem = path.length === 2 && /^\d+$/.test(path[1] ?? '');
  const isField = path.length === 1 || isItem;
  const taken = isField && Object.hasOwn(takes, name) ? takes[name] : undefined;
  if (!taken) {
    const names = Object.keys(takes).join(', ') || 'none';
    return fail(`takes no result of another step; fields that take one: ${names}`);
  }
  const reference = parseReference(value, fullPath);
  const { $from: from, output: sent, field } = reference;
  const isChosen = sent === 'chosen';
  if (isChosen && !context.isApproved)
    fail('must be the index of an output: only a step with approve takes a chosen one', 'output');
  const index = isChosen ? undefined : sent;
  const step = context.earlier.get(from) ?? fail(describeMissingStep(from, context), '$from');
  const found = { token: newId('upload'), path: path.join('.'), reference, step };
  if (sent !== undefined && field !== undefined)
    fail('cannot be used together with field', 'output');
  if (field !== undefined) {
    const { texts } = yieldsOf(step.capability);
    if (!texts.includes(field)) {
      const names =
        texts.length > 0 ? `one of ${texts.join(', ')}` : 'absent: the step yields no text';
      fail(`must be ${names} (received ${JSON.stringify(field)})`, 'field');
    }
    if (!taken.includes('text')) fail(`takes ${taken.join(' or ')}, not a text`);
    return { ...found, kind: 'text', output: null };
  }
  if (yieldsOf(step.capability).output === 'compositionPlan') {
    if (!taken.includes('compositionPlan'))
      fail(`takes ${describeTaken(taken)}; the step ${from} yields a composition plan`);
    if (sent !== undefined) fail('must be absent: the step yields one composition plan', 'output');
    return { ...found, kind: 'compositionPlan', output: null };
  }
  const output = step.outputs[index ?? 0];
  if (!output) {
    const count = step.outputs.length;
    if (count === 0)
      return fail(
        `takes ${describeTaken(taken)}; the step ${from} yields no file, but the fields ${yieldsOf(step.capability).texts.join(', ') || '(none)'}`,
      );
    return fail(
      `must be an integer of 0–${count - 1}: the step ${from} has ${count} ${count === 1 ? 'output' : 'outputs'} (received ${index})`,
      'output',
    );
  }
  if (!taken.includes(output.medium)) {
    return fail(
      `takes ${describeTaken(taken)}; output ${index ?? 0} of the step ${from} is ${article(output.medium)}`,
    );
  }
  // A film as the source of a recording must have sound.
  if (output.medium === 'video' && taken.includes('audio') && output.hasAudio === false) {
    return fail(`takes a recording; the film of the step ${from} has no sound`);
  }
  return { ...found, kind: output.medium, output };
}

function parseReference(value: Json, path: string): Reference {
  try {
    return parseWith(referenceSchema, value);
  } catch (error) {
    throw prefixError(error, path);
  }
}

const names: Readonly<Record<Handover, string>> = {
  image: 'an image',
  video: 'a video',
  audio: 'a recording',
  text: 'a text (with field)',
  compositionPlan: 'a composition plan',
};
const article = (kind: Handover): string => names[kind];
const describeTaken = (taken: readonly Handover[]): string => taken.map(article).join(' or ');

function describeMissingStep(from: string, { id, ids, earlier }: StepContext): string {
  const known = [...earlier.keys()].join(', ') || 'none';
  const list = `must be the id of an earlier step; earlier steps: ${known}`;
  if (from === id) return `${list} (received the step itself)`;
  return ids.includes(from)
    ? `${list} (received ${JSON.stringify(from)}, which follows; steps take results of earlier ones only)`
    : `${list} (received ${JSON.stringify(from)})`;
}

/** Returns the result of a step that is taken over, in place of a reference to it. */
function resolveTaken(
  { kind, output, reference, path }: FoundReference,
  taken: TakenStep,
  bodyPath: string,
): Json {
  if (reference.output === 'chosen') {
    const message = `must be the index of an output: the result of the step ${reference.$from} exists already, and none of its outputs was chosen`;
    throw invalidFieldsError('INVALID_REQUEST', [{ path: `${bodyPath}.${path}.output`, message }]);
  }
  if (output) {
    // Without an index, the first delivered output is taken.
    const named = reference.output === undefined ? taken.files : [output];
    const url = named.map(taken.urlOf).find((one) => one !== null);
    if (url !== undefined) return url;
    const indexes = [...taken.files.keys()].filter((index) =>
      taken.urlOf(taken.files[index] ?? output),
    );
    const message = `must be the index of a delivered output: ${indexes.join(', ')} (received ${reference.output})`;
    throw invalidFieldsError('INVALID_REQUEST', [{ path: `${bodyPath}.${path}.output`, message }]);
  }
  if (kind === 'compositionPlan') return taken.outputs[0]?.data ?? null;
  const text = taken.readText(reference.field ?? '');
  if (text !== null) return text;
  const message = `the result of the step ${reference.$from} has no ${reference.field}`;
  throw invalidFieldsError('INVALID_REQUEST', [{ path, message }]);
}

/** Creates a composition plan that contains the token, for the schema and the planner. */
const createPlaceholderPlan = (token: string): JsonObject => ({
  positive_global_styles: [token],
  negative_global_styles: [],
  sections: [
    {
      section_name: token,
      positive_local_styles: [],
      negative_local_styles: [],
      duration_ms: 10_000,
      lines: [],
    },
  ],
});

/** Returns whether a value is the placeholder of a composition plan with this token. */
export function isPlaceholderPlan(value: Json, token: string): boolean {
  if (!isRecord(value) || !Array.isArray(value['sections'])) return false;
  const [section] = value['sections'];
  return isRecord(section) && section['section_name'] === token;
}

/** Returns an error text with references in place of their tokens. */
export const showReferences = (text: string, references: readonly FoundReference[]): string =>
  references.reduce(
    (shown, { token, reference }) => shown.replaceAll(token, `the result of ${reference.$from}`),
    text,
  );
