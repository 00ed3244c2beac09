/** Request fields that several audio capabilities share (spec §4.8, §4.9, §8). */
import { z } from 'zod';
import type { Limit } from '../catalog/audio-models.ts';
import { voices } from '../catalog/voices.ts';

/** A text within a limit that holds more than white space. */
export function textOf({ min, max }: Limit) {
  return z.string().min(min).max(max).regex(/\S/u, 'must hold more than white space');
}

/** A number within a limit. */
export function numberOf({ min, max }: Limit) {
  return z.number().min(min).max(max);
}

/** A number within a limit, with its preset. */
export function presetNumberOf(limit: Limit & { preset: number }) {
  return numberOf(limit).default(limit.preset);
}

/** A voice of the list (spec §4.8). */
export const voiceName = z
  .enum(voices.map((voice) => voice.name))
  .meta({ description: 'One of the 23 voices.', example: 'rachel' });

/** Asks for 202 at once. */
export const asyncFlag = z.boolean().optional();

/**
 * Bytes of JSON that a part of a request may have, so that a job plan, which holds it twice (as the
 * request and as a provider's input), stays below the 64 KB that enter a workflow's history.
 */
const planBytesMax = 28_000;

/** Whether a value fits into a job plan. */
export function fitsIntoPlan(value: unknown): boolean {
  return Buffer.byteLength(JSON.stringify(value)) <= planBytesMax;
}
