/**
 * References to stored files (`storage:<key>`) in plans. They are replaced with signed URLs when
 * the call is sent to the provider, so that Temporal's history contains no signed URL, and a URL
 * cannot expire while its job waits.
 */
import type { Json, JsonObject } from '../../domain/json.ts';
import type { DraftPlan } from '../../domain/draft-plan.ts';
import { isStorageKey } from '../storage.ts';

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
  const calls = draft.calls.map(async (call) => {
    const routes = call.routes.map(async (route) => ({
      ...route,
      input: await mapStrings(route.input, replaceText),
    }));
    const { unitPriceUsd: price } = call;
    const unitPriceUsd =
      typeof price === 'number'
        ? price
        : { ...price, input: { ...price.input, url: await replaceText(price.input.url) } };
    return { ...call, unitPriceUsd, routes: await Promise.all(routes) };
  });
  const inputs = draft.inputs?.map((input) => ({
    ...input,
    url: replacements.get(input.url) ?? input.url,
  }));
  return { ...draft, ...(inputs && { inputs }), calls: await Promise.all(calls) };
}

/** Replaces every string in a JSON object, including those in nested arrays and objects. */
export async function mapStrings(
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
