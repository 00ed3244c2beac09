/** Where the gateway is and who asks: flags first, then the environment, then the local stack. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** Options that every command takes. */
export interface GlobalOptions {
  apiUrl?: string;
  apiKey?: string;
  adminKey?: string;
  json?: boolean;
}

/** What a command works with. */
export interface Settings {
  apiUrl: string;
  apiKey: string | undefined;
  adminKey: string | undefined;
  /** Print the answers as JSON, for programs. */
  json: boolean;
}

const stackDescription = z.object({
  apiUrl: z.string().optional(),
  apiKey: z.string().optional(),
  adminKey: z.string().optional(),
});

/** Settings of this call. */
export function settingsOf(options: GlobalOptions, env: NodeJS.ProcessEnv): Settings {
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
