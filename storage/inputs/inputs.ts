/**
 * Checks the inputs of a request (URLs and file ids) before credits are reserved, and signs the
 * URLs of stored inputs when a call is sent to the provider.
 */
import type { Json, JsonObject } from '../../domain/json.ts';
import type { DraftPlan, PlanInput } from '../../domain/draft-plan.ts';
import { isStorageKey, contentTypeOf, type Storage } from '../storage.ts';
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError, invalidFieldsError, type ErrorDetail } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import { findMediaType, isAccepted, listAccepted, inputUses } from '../media-types.ts';
import type { Uploads } from '../uploads.ts';
import { seesJob, type FileReader } from '../file-readers.ts';
import { isReader } from '../upload-rows.ts';

const referencePrefix = 'storage:';

/**
 * Returns the reference to a stored object that a plan contains; `Inputs.sign` replaces it with a
 * signed URL.
 */
export function toStorageReference(key: string): string {
  return referencePrefix + key;
}

/** Returns the storage key of a reference; null if the text is no reference, for example a URL. */
export function parseStorageReference(text: string): string | null {
  const key = text.startsWith(referencePrefix) ? text.slice(referencePrefix.length) : '';
  return isStorageKey(key) ? key : null;
}

/** Parameters that give access to a file, in the URLs of S3, Google Cloud, Azure and others. */
const secretParameters =
  /^(?:sig|key|code|auth|(?:.*[-_])?(?:signature|credential|token|policy|secret)|awsaccesskeyid|googleaccessid|key-pair-id)$/i;

/** Value in stored requests in place of each secret parameter. */
const hiddenValue = 'REDACTED';

/**
 * Returns an http(s) URL with hidden values in place of its secret parameters; null if the text is
 * not such a URL, or has no secret parameters.
 */
export function hideSecretParameters(text: string): string | null {
  if (/\s/.test(text) || !URL.canParse(text)) return null;
  const url = new URL(text);
  const isHttp = url.protocol === 'https:' || url.protocol === 'http:';
  if (!isHttp || listSecretParameters(url).length === 0) return null;
  const shown = Array.from(url.searchParams, ([name, value]): [string, string] => [
    name,
    secretParameters.test(name) ? hiddenValue : value,
  ]);
  url.search = new URLSearchParams(shown).toString();
  return url.href;
}

/** Returns the names of the secret parameters of a URL, with which anyone can read the file. */
export const listSecretParameters = ({ searchParams }: URL): string[] =>
  [...searchParams.keys()].filter((name) => secretParameters.test(name));

/**
 * Replaces the inputs of a draft plan, also in its calls and measured prices; returns the new
 * plan. `replacements` maps each URL or file id to its replacement.
 */
export async function substituteInputs(
  draft: DraftPlan,
  replacements: ReadonlyMap<string, string>,
): Promise<DraftPlan> {
  const replaceText = (text: string) => Promise.resolve(replacements.get(text) ?? text);
  const replaceInput = <Input extends { url: string }>(input: Input): Input => ({
    ...input,
    url: replacements.get(input.url) ?? input.url,
  });
  const calls = draft.calls.map(async (call) => {
    const routes = call.routes.map(async (route) => ({
      ...route,
      input: await mapStrings(route.input, replaceText),
    }));
    const { unitPriceUsd: price, sizeOf, known } = call;
    const unitPriceUsd =
      typeof price === 'number' ? price : { ...price, inputs: price.inputs.map(replaceInput) };
    return {
      ...call,
      unitPriceUsd,
      ...(known && { known: known.map((input) => input && replaceInput(input)) }),
      ...(sizeOf !== undefined && { sizeOf: replacements.get(sizeOf) ?? sizeOf }),
      routes: await Promise.all(routes),
    };
  });
  const inputs = draft.inputs?.map(replaceInput);
  return { ...draft, ...(inputs && { inputs }), calls: await Promise.all(calls) };
}

/** Replaces every string in a JSON object, including those in nested arrays and objects. */
async function mapStrings(
  input: JsonObject,
  replace: (text: string) => Promise<string>,
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

const artifactRow = z.object({ found: z.boolean() });

interface InputsDeps {
  pool: DatabasePool;
  storage: Storage;
  uploads: Uploads;
  outbound: Outbound;
  /**
   * Public URL of the API. An input URL with the same origin is rejected unless it is the URL of a
   * stored file.
   */
  publicBaseUrl: string;
}

/** Checked input: the storage key of a stored file, or the URL of a file on another server. */
export type ResolvedInput = { kind: 'file'; storageKey: string } | { kind: 'url'; url: string };

/**
 * Lifetime of the signed URLs that providers read, in milliseconds. It exceeds the duration of any
 * job, because a provider may read its input late.
 */
const providerReadTtlMs = 24 * 3_600_000;
/**
 * Error message for an unknown file and for a file of another organization. The message is the
 * same, so that it does not reveal which files exist.
 */
const notOwnFile = 'is not a file of this organization';

/** Input that cannot be used. The caller receives the message with the name of the field. */
class UnusableInput extends Error {}

/**
 * Requirements for an input: the caller that must be allowed to read the file, and the medium that the
 * field accepts. The medium is undefined if the field accepts every medium.
 */
interface InputRequirement {
  reader: FileReader;
  medium: PlanInput['medium'];
}
type ResolveInput = (input: string, requirement: InputRequirement) => Promise<string>;

function requireMedium(contentType: string, medium: PlanInput['medium']): void {
  const type = findMediaType(contentType);
  if (!medium || (type && isAccepted(type, inputUses[medium]))) return;
  throw new UnusableInput(
    `is ${type?.name ?? contentType}; accepted are ${listAccepted(inputUses[medium])}`,
  );
}

/**
 * Creates the function that checks one URL or file id. It returns the string that replaces the
 * input in the plan: a reference to a stored file, or a URL. Throws `UnusableInput`.
 */
function createResolver(deps: InputsDeps): ResolveInput {
  const ownOrigin = new URL(deps.publicBaseUrl).origin;

  async function findUploadKey(fileId: string, requirement: InputRequirement): Promise<string> {
    const upload = await deps.uploads.find(fileId);
    if (!upload || !isReader(requirement.reader, upload)) throw new UnusableInput(notOwnFile);
    let contentType: string | null;
    try {
      contentType = await deps.uploads.confirm(upload);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.retryable) throw error;
      throw new UnusableInput(`cannot be used: ${error.message}`);
    }
    if (contentType === null) throw new UnusableInput('has not been uploaded yet');
    requireMedium(contentType, requirement.medium);
    return upload.storage_key;
  }

  async function checkOwnKey(key: string, requirement: InputRequirement): Promise<string> {
    const [, name = ''] = key.split('/');
    const fileId = name.split('.')[0] ?? '';
    if (isId('upload', fileId)) {
      const confirmedKey = await findUploadKey(fileId, requirement);
      if (confirmedKey !== key) throw new UnusableInput(notOwnFile);
      return confirmedKey;
    }
    const { organizationId } = requirement.reader;
    // The files for which a step waits become artifacts when the job is charged.
    const artifact = await deps.pool.maybeOneFirst(sql.type(artifactRow)`
      SELECT true AS found FROM artifact
        WHERE storage_key = ${key} AND organization_id = ${organizationId} AND deleted_at IS NULL
          AND ${seesJob(requirement.reader, sql.fragment`job_id`)}
      UNION SELECT true FROM job
        WHERE id = ${name} AND organization_id = ${organizationId} AND status = 'open'
          AND ${seesJob(requirement.reader, sql.fragment`id`)}
          AND jsonb_path_exists(approvals,
            '$.*.outputs[*].artifacts[*] ? (@.storageKey == $key)', ${sql.jsonb({ key })})`);
    if (artifact === null) throw new UnusableInput(notOwnFile);
    requireMedium(contentTypeOf(key), requirement.medium);
    return key;
  }

  return async (input, requirement) => {
    if (isId('upload', input)) return toStorageReference(await findUploadKey(input, requirement));
    const url = URL.canParse(input) ? new URL(input) : null;
    const key = url && deps.storage.keyOf(url);
    const isOwnFile = key?.startsWith(`${requirement.reader.organizationId}/`);
    if (key && isOwnFile) return toStorageReference(await checkOwnKey(key, requirement));
    if (!url) throw new UnusableInput('is neither a URL nor the id of an uploaded file');
    // A signed URL of another organization's file is allowed, because anyone who has it may read
    // it.
    const isAccessible = key ? deps.storage.isSigned(url) : url.origin !== ownOrigin;
    if (!isAccessible) throw new UnusableInput(notOwnFile);
    try {
      // The plan contains the parsed URL, because another parser may read the original text
      // differently.
      return (await deps.outbound.checkAddresses(input)).href;
    } catch (error) {
      if (error instanceof OutboundError)
        throw new UnusableInput(`cannot be read: ${error.message}`);
      throw error;
    }
  };
}

/**
 * Creates the functions that check the inputs of requests and sign the URLs that providers read.
 */
export function createInputs(deps: InputsDeps) {
  const resolveInput = createResolver(deps);

  /**
   * Checks all inputs. Returns a map from each URL or file id to the reference or URL that replaces
   * it in the plan.
   * @throws GatewayError INVALID_INPUT_URL with the field of each input that cannot be used
   */
  async function resolveAll(
    inputs: readonly PlanInput[],
    reader: FileReader,
  ): Promise<ReadonlyMap<string, string>> {
    const results = await Promise.allSettled(
      inputs.map(({ url, medium }) => resolveInput(url, { reader, medium })),
    );
    const details: ErrorDetail[] = [];
    const resolved = new Map<string, string>();
    for (const [index, { field, url }] of inputs.entries()) {
      const result = results[index];
      if (result?.status === 'fulfilled') resolved.set(url, result.value);
      else if (result?.reason instanceof UnusableInput) {
        details.push({ path: field, message: result.reason.message });
      } else throw result?.reason;
    }
    if (details.length > 0) throw invalidFieldsError('INVALID_INPUT_URL', details);
    return resolved;
  }

  return {
    /**
     * Checks one input. Returns the key of a stored file, or the URL of a file on another server.
     * @throws GatewayError INVALID_INPUT_URL with the field
     */
    async resolve(input: PlanInput, reader: FileReader): Promise<ResolvedInput> {
      const resolved = (await resolveAll([input], reader)).get(input.url) ?? '';
      const storageKey = parseStorageReference(resolved);
      return storageKey === null ? { kind: 'url', url: resolved } : { kind: 'file', storageKey };
    },

    /**
     * Checks the inputs of a draft plan, and replaces them in its calls with storage references or
     * checked URLs.
     * @throws GatewayError INVALID_INPUT_URL with the field of each input that cannot be used
     */
    async prepare(draft: DraftPlan, reader: FileReader): Promise<DraftPlan> {
      if (!draft.inputs?.length) return draft;
      return substituteInputs(draft, await resolveAll(draft.inputs, reader));
    },

    /**
     * Replaces the storage references in a provider's input with signed URLs, which are valid for
     * 24 hours.
     */
    sign: (input: JsonObject, organizationId: string): Promise<JsonObject> =>
      mapStrings(input, async (text) => {
        const key = parseStorageReference(text);
        // A prompt may look like a reference, so only references to files of the caller's
        // organization are replaced.
        return key?.startsWith(`${organizationId}/`)
          ? deps.storage.urlOf(key, providerReadTtlMs)
          : text;
      }),
  };
}
export type Inputs = ReturnType<typeof createInputs>;
