/** Reads the environment variables that docker-compose.yml sets, so that processes on this machine run with them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import type { S3Server } from '../stack/s3-server.ts';

/** Root of the project. */
export const project = join(import.meta.dirname, '..', '..');

/** Schema of docker-compose.yml, with the parts that are read here. */
export const composeFile = z.object({
  services: z.record(
    z.string(),
    z.looseObject({ environment: z.record(z.string(), z.string()).optional() }),
  ),
});

/**
 * Returns those environment variables of a service that do not need .env: constants, and defaults without other variables.
 * @throws Error if there is no such service
 */
export function readServiceEnvironment(service: string): Record<string, string> {
  const text = readFileSync(join(project, 'docker-compose.yml'), 'utf8');
  const { environment } = composeFile.parse(parse(text, { merge: true })).services[service] ?? {};
  if (environment === undefined) throw new Error(`docker-compose.yml: ${service} has no variables`);
  return Object.fromEntries(
    Object.entries(environment)
      .map(([name, value]) => [name, value.replace(/^\$\{\w+:-([^${}]*)\}$/, '$1')] as const)
      .filter(([, value]) => !value.includes('$')),
  );
}

/**
 * Returns the gateway's variables in docker-compose.yml, with the addresses of this machine. Variables in `env` take
 * priority.
 */
export function gatewayEnvironment(
  env: NodeJS.ProcessEnv,
  { url, s3, sandboxUrl }: { url: string; s3: S3Server; sandboxUrl: string },
): NodeJS.ProcessEnv {
  return {
    ...readServiceEnvironment('api-1'),
    API_HOST: '127.0.0.1',
    METRICS_HOST: '127.0.0.1',
    METRICS_PORT: '0',
    ...env,
    PUBLIC_BASE_URL: url,
    S3_ENDPOINT: s3.endpoint,
    S3_PUBLIC_BASE_URL: s3.endpoint,
    S3_REGION: s3.region,
    S3_BUCKET: s3.bucket,
    S3_ACCESS_KEY_ID: s3.accessKeyId,
    S3_SECRET_ACCESS_KEY: s3.secretAccessKey,
    ALLOW_PRIVATE_NETWORK_ORIGINS: [sandboxUrl, url, s3.endpoint].join(),
  };
}
