/** Settings of the replay: the address of Temporal and the keys of its payloads. */
import { z } from 'zod';
import { ConfigError } from '../../platform/config-error.ts';
import { pickSetVariables, encryptsPayloads, type TemporalConfig } from '../../platform/config.ts';
import { payloadVariables, temporalVariables } from '../../platform/config-variables.ts';
import type { PayloadSettings } from '../../platform/payload-codec.ts';
import { readStack } from '../stack/stack-file.ts';

const temporalSchema = z.object(temporalVariables);

/**
 * Returns the address of Temporal from the environment, else that of the local stack.
 * @throws ConfigError
 */
export function loadTemporalConfig(): TemporalConfig {
  const present = pickSetVariables(process.env);
  const dataDir = present['DATA_DIR'] ?? '.data';
  const local = localTemporal(dataDir);
  if (local === null && present['TEMPORAL_ADDRESS'] === undefined) {
    throw new ConfigError(`no stack runs in ${dataDir}, and TEMPORAL_ADDRESS is not set`);
  }
  const parsed = temporalSchema.safeParse({ ...local, ...present });
  if (parsed.success) return { ...parsed.data, PAYLOAD_ENCRYPTION: encryptsPayloads(parsed.data) };
  const names = parsed.error.issues.map((issue) => issue.path.map(String).join('.'));
  throw new ConfigError(`configuration: ${[...new Set(names)].join(', ')} is wrong`);
}

/**
 * Returns only the keys of payloads.
 * @throws ZodError
 */
export function loadPayloadSettings(): PayloadSettings {
  const parsed = z.object(payloadVariables).parse(pickSetVariables(process.env));
  return { ...parsed, PAYLOAD_ENCRYPTION: encryptsPayloads(parsed) };
}

function localTemporal(dataDir: string): Record<string, string> | null {
  const stack = readStack(dataDir);
  if (stack === null) return null;
  return { TEMPORAL_ADDRESS: stack.temporalAddress, TEMPORAL_NAMESPACE: stack.temporalNamespace };
}
