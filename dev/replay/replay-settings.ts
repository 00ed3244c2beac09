/** Settings of `npm run replay`: the address of Temporal, and the keys that decrypt payloads. */
import { z } from 'zod';
import { ConfigError } from '../../platform/variable-types.ts';
import { pickSetVariables, encryptsPayloads, type TemporalConfig } from '../../platform/config.ts';
import { payloadVariables, temporalVariables } from '../../platform/config-variables.ts';
import type { PayloadSettings } from '../../platform/payload-codec.ts';
import { readStack } from '../stack/stack-file.ts';

const temporalSchema = z.object(temporalVariables);

/**
 * Returns the address of Temporal from the environment, otherwise that of the local stack.
 * @throws ConfigError if there is neither, or a setting is invalid
 */
export function loadTemporalConfig(): TemporalConfig {
  const present = pickSetVariables(process.env);
  const dataDir = present['DATA_DIR'] ?? '.data';
  const local = readLocalAddress(dataDir);
  if (local === null && present['TEMPORAL_ADDRESS'] === undefined) {
    throw new ConfigError(`no stack runs in ${dataDir}, and TEMPORAL_ADDRESS is not set`);
  }
  const parsed = temporalSchema.safeParse({ ...local, ...present });
  if (parsed.success) return { ...parsed.data, PAYLOAD_ENCRYPTION: encryptsPayloads(parsed.data) };
  const names = parsed.error.issues.map((issue) => issue.path.map(String).join('.'));
  throw new ConfigError(`invalid settings: ${[...new Set(names)].join(', ')}`);
}

/**
 * Returns the keys that decrypt payloads.
 * @throws ZodError if they are invalid
 */
export function loadPayloadSettings(): PayloadSettings {
  const parsed = z.object(payloadVariables).parse(pickSetVariables(process.env));
  return { ...parsed, PAYLOAD_ENCRYPTION: encryptsPayloads(parsed) };
}

function readLocalAddress(dataDir: string): Record<string, string> | null {
  const stack = readStack(dataDir);
  if (stack === null) return null;
  return { TEMPORAL_ADDRESS: stack.temporalAddress, TEMPORAL_NAMESPACE: stack.temporalNamespace };
}
