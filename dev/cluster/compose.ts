/** What docker-compose.yml says, so that what runs here is what it describes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

/** The project's root. */
export const project = join(import.meta.dirname, '..', '..');

const file = z.object({
  services: z.record(
    z.string(),
    z.looseObject({ environment: z.record(z.string(), z.string()).optional() }),
  ),
});

/** A service's variables, but for those that come from .env. @throws Error when there is no such service */
export function environmentOf(service: string): Record<string, string> {
  const text = readFileSync(join(project, 'docker-compose.yml'), 'utf8');
  const { environment } = file.parse(parse(text, { merge: true })).services[service] ?? {};
  if (environment === undefined) throw new Error(`docker-compose.yml: ${service} has no variables`);
  return Object.fromEntries(
    Object.entries(environment).filter(([, value]) => !value.includes('$')),
  );
}
