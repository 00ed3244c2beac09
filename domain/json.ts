/** A value that survives JSON unchanged: what may travel to a provider, to Temporal or to a column. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** A JSON object. */
export type JsonObject = { [key: string]: Json };
