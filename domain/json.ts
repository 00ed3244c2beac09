/** A value that survives JSON unchanged: what may travel to a provider, to Temporal or to a column. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** A JSON object. */
export type JsonObject = { [key: string]: Json };

/** A value of ours as JSON: all our records are made of what JSON can hold. */
export function jsonOf(value: object | null): Json {
  // oxlint-disable-next-line no-unsafe-type-assertion -- interfaces have no index signature, which is all that differs
  return value as Json;
}
