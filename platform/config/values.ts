/** Kinds of values that several sections of the configuration have. */
import { z } from 'zod';

/** `true` or `false`. */
export const flag = z.enum(['true', 'false']).transform((value) => value === 'true');

/** A TCP port; 0 = any free one. */
export const port = z.coerce.number().int().min(0).max(65_535);

/** A whole number within both bounds. */
export const count = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

const origin = z.url().transform((value) => new URL(value).origin);
const listed = (value: string): string[] => value.split(',').filter(Boolean);

/** Origins (scheme, host and port) with commas between; absent = none. */
export const originList = z.string().default('').transform(listed).pipe(z.array(origin));

/** The same, or `*` for all; absent = all. */
export const openOriginList = z
  .string()
  .default('*')
  .transform(listed)
  .pipe(z.array(z.union([z.literal('*'), origin])));
