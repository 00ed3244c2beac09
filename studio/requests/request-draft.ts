/**
 * Drafts the plan of a Studio request: checks the inputs, and measures those that determine the
 * price. If a request has several items, an unusable input fails only its own item.
 */
import { measureInput, UnusableFile } from '../../storage/media-types.ts';
import type { RequestCopies } from '../../storage/inputs/input-copies.ts';
import {
  type Inputs,
  parseStorageReference,
  substituteInputs,
} from '../../storage/inputs/inputs.ts';
import type { Config } from '../../platform/config.ts';
import type { Recordings } from '../../storage/inputs/recordings.ts';
import type { Storage } from '../../storage/storage.ts';
import { GatewayError, invalidFieldsError, fieldError, assert } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import { getRequiredScope, type Capability } from '../capabilities/capability.ts';
import { planOpenPrices, violationError } from '../pipelines/step-prices.ts';
import type {
  DraftPlan,
  RejectedItems,
  DraftCall,
  PlanInput,
  Recording,
  RecordingSource,
} from '../../domain/draft-plan.ts';
import { authorize, authorizeModel, type RequestCaller } from '../../identity/access.ts';
import type { RequestedWebhook } from '../../webhooks/webhooks.ts';
import {
  priceMeasured,
  type InputMeasurements,
  type MeasuredCall,
} from '../../domain/measured-price.ts';

/** Parsed request. Its inputs have been neither resolved nor downloaded. */
export interface ParsedRequest {
  /**
   * Parsed fields. A file in the request is represented by a hash of its bytes
   * (`ReceivedFile.contentId`).
   */
  request: JsonObject;
  /** Webhook that receives events of the job. Null if the request has none. */
  webhook: RequestedWebhook | null;
  /**
   * Name-value pairs that the caller chose, with that of the end user (domain/end-users.ts). Null if
   * the request has none.
   */
  metadata: Record<string, string> | null;
  /** End user if neither the body nor the header names one. */
  endUserDefault?: string | null;
  /** Recipe of the request, as `name@version`; null or absent if it has none. */
  recipe?: string | null;
  /** Stores the files of the request; absent if it has none. */
  storeFiles?: () => Promise<StoredFiles>;
}

/** Stored files of a request. */
export interface StoredFiles {
  /** Request with the ids of the stored files; absent if it does not change. */
  request?: JsonObject;
  /** Recordings that the request itself contained. */
  recordings?: Recording[];
}

/** Parsed request for a capability, with its caller. */
export interface StudioRequest {
  caller: RequestCaller;
  capability: Capability;
  parsedRequest: ParsedRequest;
  /** Counts the bytes of copied inputs. @throws GatewayError if the organization has its share */
  countCopied: (bytes: number) => void;
}

/**
 * Plans a request, and checks that the key may use its models. Does not read the inputs of the
 * request.
 * @throws GatewayError FORBIDDEN, and any error of the capability's plan
 */
export function authorizeRequest({ caller, capability, parsedRequest }: StudioRequest): DraftPlan {
  const plan = capability.plan(parsedRequest.request);
  authorizeModel(caller, plan.model);
  for (const step of plan.steps ?? []) {
    authorize(caller, getRequiredScope(step));
    authorizeModel(caller, step.model);
  }
  return plan;
}

interface DraftingDeps {
  inputs: Inputs;
  recordings: Recordings;
  copies: RequestCopies;
}

/**
 * Completes the plan of a request: stores its files, finds its recordings and checks its inputs.
 * Prices that depend on an input are not measured here. A request whose files were stored refers to
 * them by other ids, so it is planned again.
 * @throws GatewayError INVALID_INPUT_URL naming each field, STORAGE_QUOTA_EXCEEDED, …
 */
export async function draftRequest(
  { caller, capability, parsedRequest }: StudioRequest,
  plan: DraftPlan,
  { inputs, recordings, copies }: DraftingDeps,
): Promise<{ request: JsonObject; draft: DraftPlan }> {
  const stored: StoredFiles = (await parsedRequest.storeFiles?.()) ?? {};
  const { request = parsedRequest.request } = stored;
  const { recordings: open, ...planned } = stored.request ? capability.plan(request) : plan;
  const find = (source: RecordingSource) => recordings.find(source, { reader: caller, copies });
  const found = open && (stored.recordings ?? (await Promise.all(open.sources.map(find))));
  const unprepared = open && found ? open.complete(found) : planned;
  const prepare = (draft: DraftPlan) => inputs.prepare(draft, caller);
  const draft = await prepare(unprepared).catch((error: unknown) =>
    prepare(removeRejectedItems(unprepared, error)),
  );
  return { request, draft };
}

/**
 * Removes the items whose inputs the error names from the draft, and records their error messages.
 * @throws the given error if it names no input of an item; if no item would be left, an error with
 * the code of all rejections, or INVALID_INPUT_URL if they differ
 */
function removeRejectedItems(draft: DraftPlan, error: unknown): DraftPlan {
  const details = (error instanceof GatewayError && error.details) || [];
  const earlierRejections = draft.rejectedItems ?? {};
  // Several steps of an item can reject the same input, so the items may already have been removed.
  if (details.length > 0 && details.every(({ path }) => earlierRejections[path])) return draft;
  const inputs = draft.inputs ?? [];
  const rejectedItems: RejectedItems = { ...earlierRejections };
  for (const { path, message } of details) {
    rejectedItems[path] = { code: error instanceof GatewayError ? error.code : '', message };
  }
  const isRejected = ({ field }: { field: string }): boolean => rejectedItems[field] !== undefined;
  if (!draft.itemized || !inputs.some(isRejected)) throw error;
  if (inputs.every(isRejected)) {
    const rejections = Object.entries(rejectedItems);
    const isSame =
      error instanceof GatewayError && rejections.every(([, { code }]) => code === error.code);
    throw invalidFieldsError(
      isSame ? error.code : 'INVALID_INPUT_URL',
      rejections.map(([path, { message }]) => ({ path, message })),
    );
  }
  const steps = draft.calls.length / inputs.length;
  const calls = [...draft.calls.entries()].filter(([index]) => {
    const input = inputs[Math.floor(index / steps)];
    return input !== undefined && !isRejected(input);
  });
  const newIndexes = new Map(calls.map(([index], newIndex) => [index, newIndex]));
  return {
    ...draft,
    rejectedItems,
    inputs: inputs.filter((input) => !isRejected(input)),
    calls: calls.map(([, call]) => ({
      ...call,
      ...(call.inputFrom && {
        inputFrom: {
          ...call.inputFrom,
          callIndex: newIndexes.get(call.inputFrom.callIndex) ?? 0,
        },
      }),
    })),
  };
}

/** Returns a call with the price and the output of its measured inputs. */
function applyMeasured(call: DraftCall, measured: MeasuredCall): DraftCall {
  const { expected, input, ...prices } = measured;
  const routes = input ? call.routes.map((route) => ({ ...route, input })) : call.routes;
  return { ...call, ...prices, routes, output: { ...call.output, expected } };
}

interface MeasuringDeps {
  config: Pick<Config, 'USD_PER_CREDIT'>;
  storage: Storage;
  copies: RequestCopies;
}

/**
 * Measures all pictures, videos and recordings of a draft, and returns the plan with all prices. Each is
 * measured once, after it has been copied to storage if necessary, also if its price is fixed: a
 * provider must not be paid for a file that cannot be used. The calls then refer to the stored
 * object. If each input is an item, items with rejected inputs are removed.
 * @throws GatewayError INVALID_INPUT_URL or FILE_TOO_LARGE naming the field, and the errors of the
 * price's own limits
 */
export async function measurePrices(
  { config, storage, copies }: MeasuringDeps,
  draft: DraftPlan,
): Promise<DraftPlan> {
  const pendingMeasurements = new Map<string, Promise<InputMeasurements>>();
  /** Stored objects that the provider receives instead of the input URL, keyed by input URL. */
  const storedReferences = new Map<string, string>();

  async function measureFile({ url, medium }: Required<PlanInput>): Promise<InputMeasurements> {
    const isStored = parseStorageReference(url) !== null;
    const measured = isStored ? null : await copies.measureHeaders(url, medium);
    if (measured) return measured;
    const reference = isStored ? url : await copies.add(url, medium);
    const storageKey = parseStorageReference(reference);
    assert(storageKey !== null, 'the copied input has no storage key');
    const measurements = await measureInput(storage, storageKey, medium);
    storedReferences.set(url, reference);
    return measurements;
  }

  async function measure(input: Required<PlanInput>): Promise<InputMeasurements> {
    const { field, url, medium } = input;
    const key = `${medium} ${url}`;
    const pending = pendingMeasurements.get(key) ?? measureFile(input);
    pendingMeasurements.set(key, pending);
    try {
      return await pending;
    } catch (error) {
      if (!(error instanceof UnusableFile)) throw error;
      const code = error.code === 'FILE_TOO_LARGE' ? error.code : 'INVALID_INPUT_URL';
      throw fieldError(code, field, error.message);
    }
  }

  async function measureCall(call: DraftCall): Promise<DraftCall> {
    const { unitPriceUsd: price, sizeOf } = call;
    if (typeof price === 'number') {
      const input = measurable.find(({ url }) => url === sizeOf);
      return draft.steps && input ? { ...call, planned: await measure(input) } : call;
    }
    // The result of an earlier step is measured when it exists.
    const known = await Promise.all(
      price.inputs.map(async (input) =>
        tokens.has(input.url) ? null : { ...(await measure(input)), url: input.url },
      ),
    );
    const measured = known.filter((input) => input !== null);
    if (measured.length < known.length) return { ...call, known };
    const priced = priceMeasured(price.rule, measured);
    if ('violates' in priced) throw violationError(price, priced);
    return applyMeasured(call, priced);
  }

  const measurable = listMeasurable(draft);
  const tokens = new Set(
    draft.steps?.flatMap(({ references }) => references.map(({ token }) => token)),
  );
  const inputResults = await Promise.allSettled(measurable.map(measure));
  const callResults = await Promise.allSettled(draft.calls.map(measureCall));
  const calls = draft.calls.map((call, index) => {
    const result = callResults[index];
    return result?.status === 'fulfilled' ? result.value : call;
  });
  let measured: DraftPlan = { ...draft, calls };
  for (const result of [...inputResults, ...callResults]) {
    if (result.status === 'rejected') measured = removeRejectedItems(measured, result.reason);
  }
  const substituted = await substituteInputs(measured, storedReferences);
  return draft.steps ? planOpenPrices(substituted, config.USD_PER_CREDIT) : substituted;
}

const isMeasurable = (input: PlanInput): input is Required<PlanInput> => input.medium !== undefined;

const listMeasurable = ({ inputs = [] }: DraftPlan): Required<PlanInput>[] =>
  inputs.filter(isMeasurable);
