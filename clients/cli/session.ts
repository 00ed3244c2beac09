/**
 * Settings, clients and output of a command. A URL or key comes from the options, or else from the
 * environment, or else from the running local stack.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { z } from 'zod';
import { createApiClient, CliError, type ApiClient } from './api-client.ts';
import { createOutput } from './output.ts';

/** Owner of a key: a caller, or an operator of the gateway. */
export type KeyOwner = 'caller' | 'operator';

/** Root path of the API that each kind of key can use. */
export const apiRoots: Record<KeyOwner, string> = {
  caller: '/api/v1',
  operator: '/api/admin/v1',
};

/** Reads the settings of a command and creates its output. */
export function openSession(command: Command) {
  const settings = readSettings(command.optsWithGlobals<GlobalOptions>(), process.env);
  return {
    output: createOutput(settings.json),
    /** Creates a client with the owner's key. @throws CliError if no key is set */
    client(owner: KeyOwner): ApiClient {
      const key = owner === 'caller' ? settings.apiKey : settings.adminKey;
      if (key) return createApiClient(settings.apiUrl, key);
      const missing =
        owner === 'caller' ? 'API key: set STUDIO_API_KEY' : 'operator key: set STUDIO_ADMIN_KEY';
      throw new CliError(`No ${missing}, or run \`npm start\` first.`);
    },
  };
}
export type Session = ReturnType<typeof openSession>;

/** Options of every command. If `json` is true, responses are printed as JSON. */
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

function readSettings(options: GlobalOptions, env: NodeJS.ProcessEnv) {
  const localStack = readStack(env);
  const apiUrl =
    options.apiUrl ?? env['STUDIO_API_URL'] ?? localStack.apiUrl ?? 'http://127.0.0.1:4000';
  // The keys of the local stack are never sent to another gateway.
  const localKeys = apiUrl === localStack.apiUrl ? localStack : {};
  return {
    apiUrl: apiUrl.replace(/\/+$/, ''),
    apiKey: options.apiKey ?? env['STUDIO_API_KEY'] ?? localKeys.apiKey,
    adminKey: options.adminKey ?? env['STUDIO_ADMIN_KEY'] ?? localKeys.adminKey,
    json: options.json ?? false,
  };
}

/** Reads the URL and keys of the local stack. Returns an empty object if none is running. */
function readStack(env: NodeJS.ProcessEnv): z.infer<typeof stackDescription> {
  const projectDir = fileURLToPath(new URL('../../', import.meta.url));
  const directory = env['DATA_DIR'] || join(projectDir, '.data');
  try {
    const parsed = stackDescription.safeParse(
      JSON.parse(readFileSync(join(directory, 'stack.json'), 'utf8')),
    );
    return parsed.data ?? {};
  } catch {
    return {};
  }
}
