/** Stores the form values of the playground in the browser until the tab is closed. */
import type { FormValues } from './capability.ts';

const storageKey = (type: string): string => `draft ${type}`;

/** Returns the stored form values for a job type, or an empty object. */
export const readDraft = (type: string): FormValues =>
  JSON.parse(sessionStorage.getItem(storageKey(type)) ?? '{}');

/** Stores the form values for a job type. */
export const storeDraft = (type: string, values: FormValues): void =>
  sessionStorage.setItem(storageKey(type), JSON.stringify(values));
