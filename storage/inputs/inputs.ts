/**
 * Inputs by URL or file id: checked before credits are reserved, and signed when the call is sent
 * to the provider.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError, refusedFields, type ErrorDetail } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { OutboundError } from '../../platform/outbound-addresses.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { DraftPlan, PlanInput } from '../../studio/draft-plan.ts';
import { contentTypeOf, type Storage } from '../storage.ts';
import type { Uploads } from '../uploads.ts';
import {
  mapStrings,
  referencedKey,
  storageReference,
  substituteInputs,
} from './storage-references.ts';

const paidRow = z.object({ paid: z.boolean() });

interface InputsDeps {
  pool: DatabasePool;
  storage: Storage;
  uploads: Uploads;
  outbound: Outbound;
  /**
   * Public URL of the API. A URL with this origin that is not the URL of a stored file is rejected.
   */
  publicBaseUrl: string;
}

/** Checked input: the storage key of a stored file, or the URL of a file on another server. */
export type ResolvedInput = { kind: 'file'; storageKey: string } | { kind: 'url'; url: string };

/**
 * Lifetime of the URLs that providers read: longer than any job, because a provider may read its
 * input late.
 */
const providerReadTtlMs = 24 * 3_600_000;
/**
 * Message both for unknown files and for files of other organizations, so that it does not reveal
 * which files exist.
 */
const noFile = 'is not a file of this organization';

/**
 * Error of an input that cannot be used; the message is shown to the caller with the field's name.
 */
class Unusable extends Error {}

/** Organization that must own a stored file, and the medium that the field accepts. */
interface Requirement {
  organizationId: string;
  medium: PlanInput['medium'];
}
type ResolveOne = (input: string, required: Requirement) => Promise<string>;

function refuseOtherMedium(contentType: string, medium: PlanInput['medium']): void {
  if (medium && !contentType.startsWith(`${medium}/`)) {
    throw new Unusable(`is a file of the type ${contentType}`);
  }
}

/**
 * Makes the function that checks one URL or file id and returns the text that replaces it in the
 * plan: a reference to a stored file, or a URL. The function throws `Unusable`.
 */
function createResolver(deps: InputsDeps): ResolveOne {
  const ownOrigin = new URL(deps.publicBaseUrl).origin;

  async function uploadKey(fileId: string, required: Requirement): Promise<string> {
    const upload = await deps.uploads.find(fileId);
    if (upload?.organization_id !== required.organizationId) throw new Unusable(noFile);
    let contentType: string | null;
    try {
      contentType = await deps.uploads.confirm(upload);
    } catch (error) {
      if (error instanceof GatewayError) throw new Unusable(`cannot be used: ${error.message}`);
      throw error;
    }
    if (contentType === null) throw new Unusable('has not been uploaded yet');
    refuseOtherMedium(contentType, required.medium);
    return upload.storage_key;
  }

  async function ownKey(key: string, required: Requirement): Promise<string> {
    const [, name = ''] = key.split('/');
    const fileId = name.split('.')[0] ?? '';
    if (isId('upload', fileId)) {
      const confirmedKey = await uploadKey(fileId, required);
      if (confirmedKey !== key) throw new Unusable(noFile);
      return confirmedKey;
    }
    const paid = await deps.pool.maybeOneFirst(sql.type(paidRow)`
      SELECT true AS paid FROM artifact
      WHERE storage_key = ${key} AND organization_id = ${required.organizationId}
        AND deleted_at IS NULL`);
    if (paid === null) throw new Unusable(noFile);
    refuseOtherMedium(contentTypeOf(key), required.medium);
    return key;
  }

  return async (input, required) => {
    if (isId('upload', input)) return storageReference(await uploadKey(input, required));
    const url = URL.canParse(input) ? new URL(input) : null;
    const key = url && deps.storage.keyOf(url);
    const isOwn = key?.startsWith(`${required.organizationId}/`);
    if (key && isOwn) return storageReference(await ownKey(key, required));
    if (!url) throw new Unusable('is not a URL');
    // A signed URL of another organization's file is as public as a URL of another server.
    const isPublic = key ? deps.storage.isSigned(url) : url.origin !== ownOrigin;
    if (!isPublic) throw new Unusable(noFile);
    try {
      // The parsed URL that was checked is passed on, because another parser may read the original
      // text differently.
      return (await deps.outbound.vet(input)).href;
    } catch (error) {
      if (error instanceof OutboundError) throw new Unusable(`cannot be read: ${error.message}`);
      throw error;
    }
  };
}

/** Makes the functions that check inputs of requests and sign the URLs that providers read. */
export function createInputs(deps: InputsDeps) {
  const resolveOne = createResolver(deps);

  /**
   * Checks all inputs and returns the replacement of each URL or file id.
   * @throws GatewayError INVALID_INPUT_URL with the field of each input that cannot be used
   */
  async function resolveAll(
    inputs: readonly PlanInput[],
    organizationId: string,
  ): Promise<ReadonlyMap<string, string>> {
    const results = await Promise.allSettled(
      inputs.map(({ url, medium }) => resolveOne(url, { organizationId, medium })),
    );
    const details: ErrorDetail[] = [];
    const resolved = new Map<string, string>();
    for (const [index, { field, url }] of inputs.entries()) {
      const result = results[index];
      if (result?.status === 'fulfilled') resolved.set(url, result.value);
      else if (result?.reason instanceof Unusable) {
        details.push({ path: field, message: result.reason.message });
      } else throw result?.reason;
    }
    if (details.length > 0) throw refusedFields('INVALID_INPUT_URL', details);
    return resolved;
  }

  return {
    /**
     * Checks one input. Returns the key of a stored file, or the URL of a file on another server.
     * @throws GatewayError INVALID_INPUT_URL with the field
     */
    async resolve(input: PlanInput, organizationId: string): Promise<ResolvedInput> {
      const resolved = (await resolveAll([input], organizationId)).get(input.url) ?? '';
      const storageKey = referencedKey(resolved);
      return storageKey === null ? { kind: 'url', url: resolved } : { kind: 'file', storageKey };
    },

    /**
     * Checks the inputs of a draft plan, and replaces them in its calls by checked URLs and
     * references.
     * @throws GatewayError INVALID_INPUT_URL with each field
     */
    async prepare(draft: DraftPlan, organizationId: string): Promise<DraftPlan> {
      if (!draft.inputs?.length) return draft;
      return substituteInputs(draft, await resolveAll(draft.inputs, organizationId));
    },

    /**
     * Replaces the references in a provider's input by signed URLs, which are valid for 24 hours.
     */
    sign: (input: JsonObject, organizationId: string): Promise<JsonObject> =>
      mapStrings(input, async (text) => {
        const key = referencedKey(text);
        // A prompt may look like a reference, so only files of the caller's organization are
        // signed.
        return key?.startsWith(`${organizationId}/`)
          ? deps.storage.urlOf(key, providerReadTtlMs)
          : text;
      }),
  };
}
export type Inputs = ReturnType<typeof createInputs>;
