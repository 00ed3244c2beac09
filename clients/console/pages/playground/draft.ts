/**
 * Stores the form values of the playground in the browser until the tab is closed, and the
 * Idempotency-Key of the request that they make.
 */
import { newRequestKey } from '../../gateway/client.ts';
import { buildExample, type Capability, type FormValues } from './capability.ts';

const storageKey = (type: string): string => `draft ${type}`;

/** Returns the stored form values for a job type. Null if the form is untouched. */
export const readDraft = (type: string): FormValues | null =>
  JSON.parse(sessionStorage.getItem(storageKey(type)) ?? 'null');

/** Stores the form values for a job type. */
export const storeDraft = (type: string, values: FormValues): void =>
  sessionStorage.setItem(storageKey(type), JSON.stringify(values));

/** Changes fields of the stored form values of an endpoint, or else of its example. */
export const updateDraft = (capability: Capability, fields: FormValues): void =>
  storeDraft(capability.type, {
    ...(readDraft(capability.type) ?? buildExample(capability)),
    ...fields,
  });

/** Time after which a further click on an unchanged form starts a new job, in milliseconds. */
const sameRequestMs = 10_000;

interface KeyedRequest {
  /** Body of the request as JSON. */
  content: string;
  key: string;
  /** Time at which the gateway accepted the request, in Unix ms. Null before the response. */
  acceptedAtMs: number | null;
}

const requestKey = (type: string): string => `request ${type}`;
const readRequest = (type: string): KeyedRequest | null =>
  JSON.parse(sessionStorage.getItem(requestKey(type)) ?? 'null');
const storeRequest = (type: string, request: KeyedRequest): void =>
  sessionStorage.setItem(requestKey(type), JSON.stringify(request));

/**
 * Returns the Idempotency-Key of a request. It stays the same while the form is unchanged, so that a
 * second click, or a click after a lost response, starts no second job.
 */
export function readRequestKey(type: string, body: FormValues): string {
  const content = JSON.stringify(body);
  const last = readRequest(type);
  const isSame =
    last?.content === content &&
    (last.acceptedAtMs === null || Date.now() - last.acceptedAtMs < sameRequestMs);
  if (isSame) return last.key;
  const key = newRequestKey();
  storeRequest(type, { content, key, acceptedAtMs: null });
  return key;
}

/** Notes that the gateway has accepted the latest request. A repetition does not count. */
export function markAccepted(type: string): void {
  const last = readRequest(type);
  if (last?.acceptedAtMs === null) storeRequest(type, { ...last, acceptedAtMs: Date.now() });
}
