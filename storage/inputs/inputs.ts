/**
 * Inputs by URL or file id: checked before the reservation, signed when a call is sent. A plan
 * contains references to stored files (`storage:<key>`), so no signed URL enters Temporal's
 * history, and a job that has waited for long still sends a valid URL.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError, refusedFields, type ErrorDetail } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { DraftPlan, PlanInput } from '../../studio/capability.ts';
import { contentTypeOf, isStorageKey, type Storage } from '../storage.ts';
import type { Uploads } from '../uploads.ts';

const paidRow = z.object({ paid: z.boolean() });

interface InputsDeps {
  pool: DatabasePool;
  storage: Storage;
  uploads: Uploads;
  outbound: Outbound;
  /** Base URL of the API: a URL below it that names no file is rejected as an input. */
  publicBaseUrl: string;
}

/** Resolved input. */
export type ResolvedInput = { kind: 'file'; storageKey: string } | { kind: 'url'; url: string };

const scheme = 'storage:';
/** Validity of a signed URL, longer than any job, because a provider may fetch late. */
const providerReadTtlMs = 24 * 3_600_000;
/** Message that is the same for an unknown file and a file of another organization. */
const noFile = 'is not a file of this organization';

/** Makes the reference of a stored object in a plan; `sign` converts it to a URL. */
export function storageReference(key: string): string {
  return scheme + key;
}

/** Returns the storage key of a reference; null for other texts, such as a URL. */
export function referencedKey(word: string): string | null {
  const key = word.startsWith(scheme) ? word.slice(scheme.length) : '';
  return isStorageKey(key) ? key : null;
}

/** Returns the draft with replaced inputs, in its calls and in its prices. */
export async function substituteInputs(
  draft: DraftPlan,
  words: ReadonlyMap<string, string>,
): Promise<DraftPlan> {
  const substitute = (word: string) => Promise.resolve(words.get(word) ?? word);
  const calls = draft.calls.map(async (call) => {
    const routes = call.routes.map(async (route) => ({
      ...route,
      input: await mapStrings(route.input, substitute),
    }));
    const { unitPriceUsd: price } = call;
    const unitPriceUsd =
      typeof price === 'number'
        ? price
        : { ...price, input: { ...price.input, url: await substitute(price.input.url) } };
    return { ...call, unitPriceUsd, routes: await Promise.all(routes) };
  });
  return { ...draft, calls: await Promise.all(calls) };
}

/** Reason for which an input cannot be used, in the error message of its field. */
class Unusable extends Error {}

interface Wanted {
  organizationId: string;
  medium: PlanInput['medium'];
}
type ResolveOne = (given: string, wanted: Wanted) => Promise<string>;

function refuseOtherMedium(contentType: string, medium: PlanInput['medium']): void {
  if (medium && !contentType.startsWith(`${medium}/`)) {
    throw new Unusable(`is a file of the type ${contentType}`);
  }
}

/**
 * Makes the function that converts a URL or file id to the text that the plan contains.
 * @throws Unusable
 */
function createResolver(deps: InputsDeps): ResolveOne {
  const ownOrigin = new URL(deps.publicBaseUrl).origin;

  async function uploadKey(fileId: string, wanted: Wanted): Promise<string> {
    const upload = await deps.uploads.find(fileId);
    if (upload?.organization_id !== wanted.organizationId) throw new Unusable(noFile);
    let contentType: string | null;
    try {
      contentType = await deps.uploads.confirm(upload);
    } catch (error) {
      if (error instanceof GatewayError) throw new Unusable(`cannot be used: ${error.message}`);
      throw error;
    }
    if (contentType === null) throw new Unusable('has not been uploaded yet');
    refuseOtherMedium(contentType, wanted.medium);
    return upload.storage_key;
  }

  async function ownKey(key: string, wanted: Wanted): Promise<string> {
    const [, name = ''] = key.split('/');
    const fileId = name.split('.')[0] ?? '';
    if (isId('upload', fileId)) {
      const found = await uploadKey(fileId, wanted);
      if (found !== key) throw new Unusable(noFile);
      return found;
    }
    const paid = await deps.pool.maybeOneFirst(sql.type(paidRow)`
      SELECT true AS paid FROM artifact
      WHERE storage_key = ${key} AND organization_id = ${wanted.organizationId}
        AND deleted_at IS NULL`);
    if (paid === null) throw new Unusable(noFile);
    refuseOtherMedium(contentTypeOf(key), wanted.medium);
    return key;
  }

  return async (given, wanted) => {
    if (isId('upload', given)) return storageReference(await uploadKey(given, wanted));
    const url = URL.canParse(given) ? new URL(given) : null;
    const key = url && deps.storage.keyOf(url);
    if (key) return storageReference(await ownKey(key, wanted));
    if (!url || url.origin === ownOrigin) throw new Unusable(url ? noFile : 'is not a URL');
    try {
      // The checked URL is passed on, because another parser may read the original text
      // differently.
      return (await deps.outbound.vet(given)).href;
    } catch (error) {
      if (error instanceof OutboundError) throw new Unusable(`cannot be read: ${error.message}`);
      throw error;
    }
  };
}

/** Makes the checks of inputs of requests. */
export function createInputs(deps: InputsDeps) {
  const resolveOne = createResolver(deps);

  /** Checks all inputs; the error names each unusable one. */
  async function resolveAll(
    inputs: readonly PlanInput[],
    organizationId: string,
  ): Promise<ReadonlyMap<string, string>> {
    const ends = await Promise.allSettled(
      inputs.map(({ url, medium }) => resolveOne(url, { organizationId, medium })),
    );
    const details: ErrorDetail[] = [];
    const resolved = new Map<string, string>();
    for (const [index, { field, url }] of inputs.entries()) {
      const end = ends[index];
      if (end?.status === 'fulfilled') resolved.set(url, end.value);
      else if (end?.reason instanceof Unusable) {
        details.push({ path: field, message: end.reason.message });
      } else throw end?.reason;
    }
    if (details.length > 0) throw refusedFields('INVALID_INPUT_URL', details);
    return resolved;
  }

  return {
    /**
     * Checks one input. Returns the storage key of a file of the organization, or the checked
     * foreign URL.
     * @throws GatewayError INVALID_INPUT_URL naming the field
     */
    async resolve(input: PlanInput, organizationId: string): Promise<ResolvedInput> {
      const resolved = (await resolveAll([input], organizationId)).get(input.url) ?? '';
      return resolved.startsWith(scheme)
        ? { kind: 'file', storageKey: resolved.slice(scheme.length) }
        : { kind: 'url', url: resolved };
    },

    /**
     * Checks the inputs of a draft and replaces them in its calls by references and checked URLs.
     * @throws GatewayError INVALID_INPUT_URL naming each field
     */
    async prepare(draft: DraftPlan, organizationId: string): Promise<DraftPlan> {
      if (!draft.inputs?.length) return draft;
      return substituteInputs(draft, await resolveAll(draft.inputs, organizationId));
    },

    /** Replaces the references in a provider's input by URLs that are valid now. */
    sign: (input: JsonObject, organizationId: string): Promise<JsonObject> =>
      mapStrings(input, async (word) => {
        const key = referencedKey(word);
        // A prompt may look like a reference: only files of the organization are opened.
        return key?.startsWith(`${organizationId}/`)
          ? deps.storage.urlOf(key, providerReadTtlMs)
          : word;
      }),
  };
}
export type Inputs = ReturnType<typeof createInputs>;

async function mapStrings(
  input: JsonObject,
  replace: (word: string) => Promise<string>,
): Promise<JsonObject> {
  const mapValue = async (value: Json): Promise<Json> => {
    if (typeof value === 'string') return replace(value);
    if (Array.isArray(value)) return Promise.all(value.map(mapValue));
    return value !== null && typeof value === 'object' ? mapStrings(value, replace) : value;
  };
  const entries = Object.entries(input).map(async ([name, value]): Promise<[string, Json]> => [
    name,
    await mapValue(value),
  ]);
  return Object.fromEntries<Json>(await Promise.all(entries));
}
