/** `stack.json`: URLs, keys and process ids of a running stack, for the tools that use it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const schema = z.object({
  apiUrl: z.url(),
  temporalAddress: z.string(),
  temporalNamespace: z.string(),
  /** Null if the Temporal server is not part of the stack. */
  temporalUiUrl: z.url().nullable(),
  databaseUrl: z.string(),
  sandboxUrl: z.url(),
  apiKey: z.string(),
  adminKey: z.string(),
  organizationId: z.string(),
  /** Process ids by service; updated at each restart. */
  processes: z.record(z.string(), z.number()),
});

/** Content of the file. */
export type StackDescription = z.infer<typeof schema>;

/** Path of the file. */
export function stackFile(dataDir: string): string {
  return join(dataDir, 'stack.json');
}

/** Returns the running stack of a data directory, or null if none is ready. */
export function readStack(dataDir: string): StackDescription | null {
  try {
    return schema.parse(JSON.parse(readFileSync(stackFile(dataDir), 'utf8')));
  } catch {
    return null;
  }
}
