/** Values of playground forms, which the browser keeps while the tab is open. */
import type { Values } from './capability.ts';

const storageKey = (type: string): string => `draft ${type}`;

/** Returns the stored values of the form for a job type; empty if there are none. */
export const readDraft = (type: string): Values =>
  JSON.parse(sessionStorage.getItem(storageKey(type)) ?? '{}');

/** Stores the values of the form for a job type. */
export const storeDraft = (type: string, values: Values): void =>
  sessionStorage.setItem(storageKey(type), JSON.stringify(values));
