/**
 * Stores the form values of the playground in the browser until the tab is closed, and the
 * Idempotency-Key of the request that they make.
 */
import { useState } from 'react';
import { useLocation } from 'wouter';
import { newRequestKey } from '../../gateway/client.ts';
import { buildOpening, studioPath, type Capability, type FormValues } from './capability.ts';

const storageKey = (type: string): string => `draft ${type}`;

/** Returns the stored form values for a job type. Null if the form is untouched, or was sent. */
export const readDraft = (type: string): FormValues | null =>
  JSON.parse(sessionStorage.getItem(storageKey(type)) ?? 'null');

/** Stores the form values for a job type, and the job that they made, if its result is shown beside the form. */
export function storeDraft(type: string, values: FormValues, jobId?: string): void {
  sessionStorage.setItem(storageKey(type), JSON.stringify(values));
  if (jobId !== undefined) sessionStorage.setItem(`job ${type}`, jobId);
}

/**
 * Returns a function that opens the form of an endpoint with the given fields. The form keeps the
 * text that was typed into it. Its other fields are those of the example.
 */
export function useOpenForm(): (capability: Capability, fields: FormValues) => void {
  const [, navigate] = useLocation();
  return (capability, fields) => {
    const opening = buildOpening(capability, readDraft(capability.type) ?? {});
    storeDraft(capability.type, { ...opening, ...fields });
    // A form that is already shown is drawn anew, because the state differs.
    navigate(`/playground/${studioPath(capability)}`, { state: newRequestKey() });
  };
}

/**
 * Returns the id of the job that the form of a type has started in this tab, or that was chosen for
 * it, and a function that changes it.
 */
export function useShownJob(type: string) {
  const key = `job ${type}`;
  const [jobId, setJobId] = useState(() => sessionStorage.getItem(key));
  const show = (next: string | null): void => {
    if (next === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, next);
    setJobId(next);
  };
  return [jobId, show] as const;
}

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

/**
 * Notes that the gateway has accepted the latest request, whose form values are no draft any more. A
 * repetition does not count.
 */
export function markAccepted(type: string): void {
  sessionStorage.removeItem(storageKey(type));
  const last = readRequest(type);
  if (last?.acceptedAtMs === null) storeRequest(type, { ...last, acceptedAtMs: Date.now() });
}
