/**
 * Reads a Studio request and drafts its plan. Reading parses JSON or a form without resolving inputs; its result identifies
 * the request for its Idempotency-Key. Drafting checks the inputs, and measures those that determine the price. If a request
 * has several items, an unusable input rejects only its own item.
 */
import {
  InputUnreadable,
  measureInput,
  type RequestCopies,
} from '../../storage/inputs/measured-inputs.ts';
import { type Inputs, referencedKey, substituteInputs } from '../../storage/inputs/inputs.ts';
import type { ReceivedFile, Recordings, RequestFiles } from '../../storage/inputs/carried-files.ts';
import type { Storage } from '../../storage/storage.ts';
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
import { readJson } from '../http/body.ts';
import { parseWith } from '../http/parsing.ts';
import { parseMetadata } from '../http/metadata.ts';
import { receiveForm } from '../http/multipart.ts';
import { dataUrlBodyBytesMax, receiveDataUrls, type ReceivedDataUrls } from './data-urls.ts';
import { parseWebhookUrl } from './webhook-url.ts';

/** Request that was read. Its inputs were neither resolved nor downloaded. */
export interface ReadRequest {
  /** Parsed request; a file of the request is named by a hash of its bytes (`ReceivedFile.contentId`). */
  request: JsonObject;
  /** URL that is notified when the job ends; null if there is none. */
  webhookUrl: string | null;
  /** Name-value pairs that the caller chose; null if there are none. */
  metadata: Record<string, string> | null;
  /** Stores the files of the request, and finds its recording; absent if the request has neither. */
  complete?: () => Promise<{ request: JsonObject; recording?: Recording }>;
}

/** Services that read a request. */
export interface ReadingDeps {
  recordings: Recordings;
  requestFiles: RequestFiles;
  outbound: Outbound;
  /** Registers a file of the request as soon as it arrives, so that it can be discarded. */
  onReceiving: (file: Promise<ReceivedFile>) => void;
}

/** Reads a request for a capability from the body of an endpoint. */
export type ReadRequestOf = (
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
) => ReadRequest | Promise<ReadRequest>;

/**
 * Reads the body of a capability's own endpoint.
 * @throws GatewayError INVALID_REQUEST, CONFLICTING_FIELDS, FILE_TOO_LARGE, …
 */
export async function readRequest(
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
): Promise<ReadRequest> {
  if (capability.upload && ctx.is('multipart/form-data')) return readForm(ctx, capability, deps);
  const { webhookUrl: url, metadata: pairs, ...sent } = await readJson(ctx, dataUrlBodyBytesMax);
  const { fields, store } = await receiveDataUrls(ctx, sent, deps);
  const request = parseWith(capability.request, fields);
  const webhookUrl = parseWebhookUrl(url, deps.outbound);
  const metadata = parseMetadata(pairs);
  return { webhookUrl, metadata, ...completed(ctx, capability, { request, store, ...deps }) };
}

/**
 * Returns the request and the function that stores its `data:` URLs and finds its recording.
 * @throws GatewayError if it names no recording, or two
 */
function completed(
  ctx: Context,
  capability: Capability,
  {
    request,
    store,
    recordings,
  }: { request: JsonObject; store: ReceivedDataUrls['store']; recordings: Recordings },
): Pick<ReadRequest, 'request' | 'complete'> {
  // Rejects a wrong source before the request claims its Idempotency-Key.
  const hasRecording = capability.recording?.(request) !== undefined;
  if (!hasRecording && !store) return { request };
  const { organizationId } = ctx.state.caller;
  return {
    request,
    async complete() {
      const stored = store ? await store(request) : request;
      const source = capability.recording?.(stored);
      if (!source) return { request: stored };
      return { request: stored, recording: await recordings.find(source, organizationId) };
    },
  };
}

async function readForm(
  ctx: Context,
  capability: Capability,
  { recordings, requestFiles, outbound, onReceiving }: ReadingDeps,
): Promise<ReadRequest> {
  const field = capability.upload?.field ?? '';
  const { texts, files } = await receiveForm(ctx, {
    fields: [field],
    bytesMax: capability.upload?.bytesMax ?? 0,
    requireRoom: requestFiles.requireRoom,
    keep(stream) {
      const receiving = requestFiles.receiveRecording({ field, stream }, ctx.state.caller);
      onReceiving(receiving);
      return receiving;
    },
  });
  const [file] = files;
  const { async: later, webhookUrl: url, metadata: pairs, ...fields } = texts;
  const webhookUrl = parseWebhookUrl(url, outbound);
  const metadata = parseMetadata(jsonOrText(pairs));
  const named = { ...fields, ...(later !== undefined && { async: spelledFlag(later) }) };
  if (!file) {
    // A missing file is reported before unknown fields.
    capability.recording?.(named);
    const request = parseWith(capability.request, named);
    const store = null;
    return { webhookUrl, metadata, ...completed(ctx, capability, { request, store, recordings }) };
  }
  if (texts['fileId'] !== undefined) {
    const message = `name one source: ${field} or fileId`;
    throw fieldsError('CONFLICTING_FIELDS', [field, 'fileId'], message);
  }
  const request = parseWith(capability.request, {
    ...(file.name !== '' && { fileName: file.name.slice(0, 255) }),
    ...named,
    fileId: file.kept.contentId,
  });
  // Rejects a second source in addition to the file.
  capability.recording?.(request);
  return { request, webhookUrl, metadata, complete: storedRecording(request, file.kept) };
}

/** Makes the `complete` function of a request that contains its recording as a file: it stores the file. */
export function storedRecording(
  request: JsonObject,
  { store, durationSeconds }: ReceivedFile,
): NonNullable<ReadRequest['complete']> {
  return async () => {
    const { storageKey } = await store();
    const seconds = durationSeconds ?? 0;
    return { request, recording: { kind: 'file', storageKey, durationSeconds: seconds } };
  };
}

/**
 * Plans a request without its inputs, and checks that the key may use its model.
 * @throws GatewayError from the capability's plan, and FORBIDDEN
 */
export function authorizeRequest(
  ctx: Context,
  capability: Capability,
  { request }: Pick<ReadRequest, 'request'>,
): void {
  authorizeModel(ctx.state.caller, capability.plan(request).model);
}

/**
 * Drafts the plan of a request: completes it and checks its inputs. Prices that depend on an input are not measured yet.
 * @throws GatewayError INVALID_INPUT_URL naming each field, STORAGE_QUOTA_EXCEEDED, …
 */
export async function draftRequest(
  ctx: Context,
  { capability, read }: { capability: Capability; read: ReadRequest },
  { inputs }: { inputs: Inputs },
): Promise<{ request: JsonObject; draft: DraftPlan }> {
  const { organizationId } = ctx.state.caller;
  const { request, recording } = read.complete ? await read.complete() : { request: read.request };
  const planned = capability.plan(request, recording);
  const prepare = (plan: DraftPlan) => inputs.prepare(plan, organizationId);
  const draft = await prepare(planned).catch((error: unknown) =>
    prepare(withoutItems(planned, error)),
  );
  return { request, draft };
}

/** Parses a form's text as JSON; the schema rejects a text that is not JSON. */
function jsonOrText(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Parses a form's flag; the schema rejects another spelling. */
function spelledFlag(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}

/**
 * Returns the draft without the items whose inputs an error names, and with the error messages of these items.
 * @throws the error itself if it names anything other than inputs of items; INVALID_INPUT_URL if no item would be left
 */
function withoutItems(draft: DraftPlan, error: unknown): DraftPlan {
  const details = (error instanceof GatewayError && error.details) || [];
  const before = draft.refusedItems ?? {};
  // Several steps of an item can reject the same input; the item is removed already.
  if (details.length > 0 && details.every(({ path }) => before[path])) return draft;
  const inputs = draft.inputs ?? [];
  const refused: RefusedItems = { ...before };
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
  const calls = [...draft.calls.entries()].filter(([index]) => {
    const input = inputs[Math.floor(index / steps)];
    return input !== undefined && !isRefused(input);
  });
  const places = new Map(calls.map(([index], place) => [index, place]));
  return {
    ...draft,
    refusedItems: refused,
    inputs: inputs.filter((input) => !isRefused(input)),
    calls: calls.map(([, call]) => ({
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
 * Measures the inputs that prices depend on, and returns the plan with all prices. Each such input is copied to the storage,
 * unless it is there already, and measured once; the calls then refer to the measured object. If each input is an item, an
 * item with a rejected input is left out.
 * @throws GatewayError INVALID_INPUT_URL naming the field, and the errors of the price's own limits
 */
export async function measurePrices(
  { storage, copies }: MeasuringDeps,
  draft: DraftPlan,
): Promise<DraftPlan> {
  const measures = new Map<string, Promise<InputFacts>>();
  /** Measured objects by input URL, which the provider receives instead of the URL. */
  const references = new Map<string, string>();

  async function measure(url: string, medium: 'image' | 'video'): Promise<InputFacts> {
    const reference = referencedKey(url) === null ? await copies.keep(url, medium) : url;
    const storageKey = referencedKey(reference);
    assert(storageKey !== null, 'a copied input is in the storage');
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
  let measured: DraftPlan = { ...draft, calls };
  for (const end of ends) {
    if (end.status === 'rejected') measured = withoutItems(measured, end.reason);
  }
  return substituteInputs(measured, references);
}
