/** A command at work: its settings, its clients, its output. */
import type { Command } from 'commander';
import { createApiClient, CliError, type ApiClient } from './api-client.ts';
import { createOutput, type Output } from './output.ts';
import { settingsOf, type GlobalOptions } from './settings.ts';

/** What commands are given. */
export interface Session {
  output: Output;
  /** With the caller's key. @throws CliError when there is none */
  api: () => ApiClient;
  /** With the operator's key. @throws CliError when there is none */
  admin: () => ApiClient;
}

/** The session of a command. */
export function sessionOf(command: Command): Session {
  const settings = settingsOf(command.optsWithGlobals<GlobalOptions>(), process.env);
  const clientWith = (key: string | undefined, needed: string): ApiClient => {
    if (!key) throw new CliError(needed);
    return createApiClient(settings.apiUrl, key);
  };
  return {
    output: createOutput(settings.json),
    api: () =>
      clientWith(settings.apiKey, 'No API key: set STUDIO_API_KEY, or run `npm start` first.'),
    admin: () =>
      clientWith(
        settings.adminKey,
        'No admin key: set STUDIO_ADMIN_KEY, or run `npm start` first.',
      ),
  };
}
