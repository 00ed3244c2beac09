import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivateFile } from './private-file.ts';

const text = z.string().min(1);
const schema = z.object({
  postgresPassword: text,
  keyPepper: text,
  webhookSecret: text,
  webhookSigningSecret: text,
  storageSecret: text,
  adminKey: text,
  /**
   * Key of the payloads in Temporal. It encrypts only if PAYLOAD_ENCRYPTION is set, and always
   * decrypts.
   */
  payloadKey: text,
  /** Key that the provider sandbox accepts in place of any provider's key. */
  sandboxKey: text,
  /** API key of the demo organization. Missing until the organization exists. */
  demoApiKey: text.optional(),
});

/** Secrets of the local stack, which stay the same across restarts. */
export type Secrets = z.infer<typeof schema>;

/**
 * Reads `secrets.json` of a data directory and generates missing secrets.
 * @throws Error if the file exists but cannot be read, because new secrets would make the database
 * and its API keys useless
 */
export function loadSecrets(dataDir: string): Secrets {
  const path = join(dataDir, 'secrets.json');
  const fresh: Secrets = {
    postgresPassword: randomSecret(),
    keyPepper: randomSecret(),
    webhookSecret: randomSecret(),
    webhookSigningSecret: randomSecret(),
    storageSecret: randomSecret(),
    adminKey: `admin_${randomSecret()}`,
    payloadKey: `local:${randomSecret()}`,
    sandboxKey: `sandbox_${randomSecret()}`,
  };
  const secrets = schema.parse({ ...fresh, ...readStored(path) });
  saveSecrets(dataDir, secrets);
  return secrets;
}

/** Writes `secrets.json`; only the current user can read it. */
export function saveSecrets(dataDir: string, secrets: Secrets): void {
  writePrivateFile(join(dataDir, 'secrets.json'), `${JSON.stringify(secrets, null, 2)}\n`);
}

function readStored(path: string): Record<string, unknown> {
  let stored: string;
  try {
    stored = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return {};
    throw error;
  }
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(stored));
  } catch (error) {
    throw new Error(`${path} cannot be read; restore it, or delete the whole data directory`, {
      cause: error,
    });
  }
}

function randomSecret(): string {
  return randomBytes(32).toString('base64url');
}
