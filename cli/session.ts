/** A command at work: where the gateway is and who asks (flags, then the environment, then the local stack), its clients, its output. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { z } from 'zod';
import { createApiClient, CliError, type ApiClient } from './api-client.ts';
import { createOutput } from './output.ts';

/** What a command is given. */
export function sessionOf(command: Command) {
  const settings = settingsOf(command.optsWithGlobals<GlobalOptions>(), process.env);
  const clientWith = (key: string | undefined, needed: string): ApiClient => {
    if (!key) throw new CliError(needed);
    return createApiClient(settings.apiUrl, key);
  };
  return {
    output: createOutput(settings.json),
    /** With the caller's key. @throws CliError when there is none */
    api: () =>
      clientWith(settings.apiKey, 'No API key: set STUDIO_API_KEY, or run `npm start` first.'),
    /** With the operator's key. @throws CliError when there is none */
    admin: () =>
      clientWith(
        settings.adminKey,
        'No admin key: set STUDIO_ADMIN_KEY, or run `npm start` first.',
      ),
  };
}
export type Session = ReturnType<typeof sessionOf>;

/** Options that every command takes; `json`: answers are printed as JSON, for programs. */
interface GlobalOptions {
  apiUrl?: string;
  apiKey?: string;
  adminKey?: string;
  json?: boolean;
}

const stackDescription = z.object({
  apiUrl: z.string().optional(),
  apiKey: z.string().optional(),
  adminKey: z.string().optional(),
});

function settingsOf(options: GlobalOptions, env: NodeJS.ProcessEnv) {
  const stack = readStack(env);
  const apiUrl = options.apiUrl ?? env['STUDIO_API_URL'] ?? stack.apiUrl ?? 'http://127.0.0.1:4000';
  // The keys of the local stack are for the local stack: they go to no other address.
  const local = apiUrl === stack.apiUrl ? stack : {};
  return {
    apiUrl: apiUrl.replace(/\/+$/, ''),
    apiKey: options.apiKey ?? env['STUDIO_API_KEY'] ?? local.apiKey,
    adminKey: options.adminKey ?? env['STUDIO_ADMIN_KEY'] ?? local.adminKey,
    json: options.json ?? false,
  };
}

/** What a running local stack says of itself; nothing when none runs. */
function readStack(env: NodeJS.ProcessEnv): z.infer<typeof stackDescription> {
  const project = fileURLToPath(new URL('../', import.meta.url));
  const directory = env['DATA_DIR'] || join(project, '.data');
  try {
    const parsed = stackDescription.safeParse(
      JSON.parse(readFileSync(join(directory, 'stack.json'), 'utf8')),
    );
    return parsed.data ?? {};
  } catch {
    return {};
  }
}
