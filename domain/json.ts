/** A value that survives JSON unchanged: what may travel to a provider, to Temporal or to a column. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** A JSON object. */
export type JsonObject = { [key: string]: Json };

/** A value of ours as JSON: all our records are made of what JSON can hold. */
export function jsonOf(value: object | null): Json {
  // oxlint-disable-next-line no-unsafe-type-assertion -- interfaces have no index signature, which is all that differs
  return value as Json;
}

/** The names of a literal object, with their type. */
export function keysOf<Name extends string>(
  record: Readonly<Record<Name, unknown>>,
): [Name, ...Name[]] {
  // oxlint-disable-next-line no-unsafe-type-assertion -- `Object.keys` forgets the names of a literal
  return Object.keys(record) as [Name, ...Name[]];
}
