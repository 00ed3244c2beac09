/** `stack.json`, with which a stack that is ready describes itself to the tools beside it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const schema = z.object({
  apiUrl: z.url(),
  temporalAddress: z.string(),
  temporalNamespace: z.string(),
  /** Null when the Temporal server is not ours. */
  temporalUiUrl: z.url().nullable(),
  databaseUrl: z.string(),
  sandboxUrl: z.url(),
  apiKey: z.string(),
  adminKey: z.string(),
  organizationId: z.string(),
  /** Process ids by service; kept up to date across restarts. */
  processes: z.record(z.string(), z.number()),
});

/** What it says. */
export type StackDescription = z.infer<typeof schema>;

/** Where it lies. */
export function stackFile(dataDir: string): string {
  return join(dataDir, 'stack.json');
}

/** The running stack of a data directory; null when there is none that is ready. */
export function readStack(dataDir: string): StackDescription | null {
  try {
    return schema.parse(JSON.parse(readFileSync(stackFile(dataDir), 'utf8')));
  } catch {
    return null;
  }
}
