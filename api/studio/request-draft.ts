/**
 * A Studio request as a draft of its plan: read, as JSON or as a form with a file, planned, allowed to this key, its
 * inputs checked and, where the price depends on them, measured. Nothing is started. Of several inputs each is
 * settled on its own: one that cannot be used does not refuse the others.
 */
import {
  InputUnreadable,
  measureInput,
  type RequestCopies,
} from '../../activities/inputs/measured-inputs.ts';
import { type Inputs, referencedKey, substituteInputs } from '../../activities/inputs/inputs.ts';
import type { Pictures, Recordings } from '../../activities/inputs/carried-files.ts';
import type { Storage } from '../../activities/storage/storage.ts';
import {
  fieldsError,
  GatewayError,
  refusedFields,
  fieldError,
  assert,
} from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type {
  Capability,
  DraftPlan,
  Recording,
  RefusedItems,
  DraftCall,
  InputFacts,
} from '../../studio/capability.ts';
import type { Context } from '../context.ts';
import { authorizeModel } from '../middleware/authenticate.ts';
import { readJson } from '../middleware/body.ts';
import { parseWith } from '../middleware/parsing.ts';
import { parseMetadata } from '../middleware/metadata.ts';
import { receiveForm } from '../middleware/multipart.ts';
import { parseWebhookUrl } from './webhook-url.ts';

/**
 * Reads and plans a request; prices that depend on an input are not measured yet.
 * @throws GatewayError what refuses the request before anything is reserved
 */
export async function draftRequest(
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps & { inputs: Inputs; read: ReadRequestOf },
) {
  const { caller } = ctx.state;
  const read = await deps.read(ctx, capability, deps);
  const { request, recording, webhookUrl, metadata, sameAs = request } = read;
  const planned = capability.plan(request, recording);
  authorizeModel(caller, planned.model);
  const prepare = (plan: DraftPlan) => deps.inputs.prepare(plan, caller.organizationId);
  const draft = await prepare(planned).catch((error: unknown) =>
    prepare(withoutItems(planned, error)),
  );
  return { request, sameAs, webhookUrl, metadata, draft };
}

/** A request that was read. */
export interface ReadRequest {
  request: JsonObject;
  recording: Recording | undefined;
  /** Whom to tell of the job's end; null: nobody. */
  webhookUrl: string | null;
  /** The caller's own pairs; null where there are none. */
  metadata: Record<string, string> | null;
  /** What a repeat has to say to be the same request; absent: the request itself. */
  sameAs?: JsonObject;
}

/** What a request is read with. */
export interface ReadingDeps {
  recordings: Recordings;
  pictures: Pictures;
  outbound: Outbound;
  /** Takes note of a file that is kept for the request, as soon as it is on its way. */
  onKeeping: (file: Promise<{ storageKey: string }>) => void;
}

/** Reads a request for a capability from the body of an operation. */
export type ReadRequestOf = (
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
) => ReadRequest | Promise<ReadRequest>;

/**
 * Reads the body; a file in it is kept, and whatever recording is named is looked at.
 * @throws GatewayError INVALID_REQUEST, CONFLICTING_FIELDS, INVALID_INPUT_URL, FILE_TOO_LARGE, …
 */
export async function readRequest(
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
): Promise<ReadRequest> {
  const { recordings } = deps;
  if (capability.upload && ctx.is('multipart/form-data')) return readForm(ctx, capability, deps);
  const { webhookUrl: given, metadata: pairs, ...fields } = await readJson(ctx);
  const request = parseWith(capability.request, fields);
  const webhookUrl = parseWebhookUrl(given, deps.outbound);
  const metadata = parseMetadata(pairs);
  const recording = await findRecording(ctx, capability, { request, recordings });
  return { request, recording, webhookUrl, metadata };
}

async function findRecording(
  ctx: Context,
  capability: Capability,
  { request, recordings }: { request: JsonObject; recordings: Recordings },
): Promise<Recording | undefined> {
  const wanted = capability.recording?.(request);
  return wanted && recordings.find(wanted, ctx.state.caller.organizationId);
}

async function readForm(
  ctx: Context,
  capability: Capability,
  { recordings, outbound, onKeeping }: ReadingDeps,
): Promise<ReadRequest> {
  const field = capability.upload?.field ?? '';
  const { texts, files } = await receiveForm(ctx, {
    fields: [field],
    bytesMax: capability.upload?.bytesMax ?? 0,
    keep(stream) {
      const keeping = recordings.keep({ field, stream }, ctx.state.caller);
      onKeeping(keeping.then(({ recording }) => recording));
      return keeping;
    },
  });
  const [file] = files;
  const { async: later, webhookUrl: given, metadata: pairs, ...fields } = texts;
  const webhookUrl = parseWebhookUrl(given, outbound);
  const metadata = parseMetadata(jsonOrText(pairs));
  const told = { ...fields, ...(later !== undefined && { async: spelledFlag(later) }) };
  if (!file) {
    // What it lacks is told before what it has too much.
    capability.recording?.(told);
    const request = parseWith(capability.request, told);
    const recording = await findRecording(ctx, capability, { request, recordings });
    return { request, recording, webhookUrl, metadata };
  }
  if (texts['fileId'] !== undefined) {
    const message = `name one source: ${field} or fileId`;
    throw fieldsError('CONFLICTING_FIELDS', [field, 'fileId'], message);
  }
  const request = parseWith(capability.request, {
    ...(file.name !== '' && { fileName: file.name.slice(0, 255) }),
    ...told,
    fileId: file.kept.fileId,
  });
  // Refuses a second source beside the file.
  capability.recording?.(request);
  return { request, recording: file.kept.recording, webhookUrl, metadata };
}

/** Forms know texts only; what is no JSON is left for the schema to refuse. */
function jsonOrText(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** As `jsonOrText`, of a flag; another spelling is left for the schema to refuse. */
function spelledFlag(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}

/**
 * The draft without the items whose inputs an error names, with what is said of them.
 * @throws the error, where it is about more than items, or no item would be left
 */
function withoutItems(draft: DraftPlan, error: unknown): DraftPlan {
  const details = (error instanceof GatewayError && error.details) || [];
  const known = draft.refusedItems ?? {};
  // Each step of an item says the same of its input.
  if (details.length > 0 && details.every(({ path }) => known[path])) return draft;
  const inputs = draft.inputs ?? [];
  const refused: RefusedItems = { ...known };
  for (const { path, message } of details) {
    refused[path] = { code: error instanceof GatewayError ? error.code : '', message };
  }
  const isRefused = ({ field }: { field: string }): boolean => refused[field] !== undefined;
  if (!draft.itemized || !inputs.some(isRefused)) throw error;
  if (inputs.every(isRefused)) {
    const all = Object.entries(refused).map(([path, { message }]) => ({ path, message }));
    throw refusedFields('INVALID_INPUT_URL', all);
  }
  const steps = draft.calls.length / inputs.length;
  const kept = [...draft.calls.entries()].filter(([index]) => {
    const input = inputs[Math.floor(index / steps)];
    return input !== undefined && !isRefused(input);
  });
  const places = new Map(kept.map(([index], place) => [index, place]));
  return {
    ...draft,
    refusedItems: refused,
    inputs: inputs.filter((input) => !isRefused(input)),
    calls: kept.map(([, call]) => ({
      ...call,
      ...(call.inputFrom && {
        inputFrom: {
          ...call.inputFrom,
          callIndex: places.get(call.inputFrom.callIndex) ?? 0,
        },
      }),
    })),
  };
}

interface MeasuringDeps {
  storage: Storage;
  copies: RequestCopies;
}

/**
 * The plan with all prices known; each input is copied, if it is not ours, and measured once, and is
 * named in the calls by what was measured. Where each input is an item, one that is refused is left out.
 * @throws GatewayError INVALID_INPUT_URL naming the field, or what the price's own limits refuse
 */
export async function measurePrices(
  { storage, copies }: MeasuringDeps,
  draft: DraftPlan,
): Promise<DraftPlan> {
  const measures = new Map<string, Promise<InputFacts>>();
  /** What the provider is to be given: the objects that were measured. */
  const references = new Map<string, string>();

  async function measure(url: string, medium: 'image' | 'video'): Promise<InputFacts> {
    const reference = referencedKey(url) === null ? await copies.keep(url, medium) : url;
    const storageKey = referencedKey(reference);
    assert(storageKey !== null, 'what was copied is in the storage');
    const facts = await measureInput(storage, storageKey, medium);
    references.set(url, reference);
    return facts;
  }

  async function priced(call: DraftCall): Promise<DraftCall> {
    const { unitPriceUsd: price } = call;
    if (typeof price === 'number') return call;
    const { url } = price.input;
    const measuring = measures.get(url) ?? measure(url, price.input.medium);
    measures.set(url, measuring);
    try {
      const facts = await measuring;
      const { quantity = call.quantity, expected, variants } = price.outputOf(facts);
      const output = { ...call.output, expected };
      return { ...call, quantity, output, variants, unitPriceUsd: price.usdOf(facts) };
    } catch (error) {
      if (!(error instanceof InputUnreadable)) throw error;
      const { field: path } = price.input;
      throw fieldError('INVALID_INPUT_URL', path, error.message);
    }
  }

  const ends = await Promise.allSettled(draft.calls.map(priced));
  const calls = draft.calls.map((call, index) => {
    const end = ends[index];
    return end?.status === 'fulfilled' ? end.value : call;
  });
  let left: DraftPlan = { ...draft, calls };
  for (const end of ends) if (end.status === 'rejected') left = withoutItems(left, end.reason);
  return substituteInputs(left, references);
}
