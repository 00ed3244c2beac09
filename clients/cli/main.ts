/**
 * `npm run studio -- …`: command-line tool of the gateway, for callers and operators. It uses only
 * the HTTP API. It exits with 0 on success, 1 if the request or the job failed, and 2 if the
 * command line is invalid.
 */
import { Command, CommanderError } from 'commander';
import { StudioError } from '../typescript/errors.ts';
import { CliError } from './api-client.ts';
import { createAdminCommand } from './commands/admin.ts';
import { createBulkCommand } from './commands/bulk.ts';
import { createChatCommand, createModelsCommand } from './commands/chat.ts';
import { createFilesCommand } from './commands/files.ts';
import { createJobsCommand } from './commands/jobs.ts';
import { createKeysCommand } from './commands/keys.ts';
import { createPipelineCommands } from './commands/pipeline.ts';
import { createRecipesCommand } from './commands/recipes.ts';
import { createRequestsCommand } from './commands/requests.ts';
import { createStudioCommands } from './commands/studio.ts';
import { createTranscribeCommand } from './commands/transcribe.ts';
import { createUsageCommand } from './commands/usage.ts';
import { createWebhooksCommand } from './commands/webhooks.ts';

// A reader such as `head` may close the pipe before the output ends.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

const program = new Command('studio')
  .description('Chat, images, video, voice, music and sound through the gateway')
  .option('--api-url <url>', 'URL of the gateway (default: STUDIO_API_URL, or the local stack)')
  .option('--api-key <key>', 'API key (default: STUDIO_API_KEY, or the key of the local stack)')
  .option(
    '--admin-key <key>',
    'operator key (default: STUDIO_ADMIN_KEY, or the key of the local stack)',
  )
  .option('--json', 'print responses as JSON');

const commands = [
  createModelsCommand(),
  createChatCommand(),
  ...createStudioCommands(),
  createTranscribeCommand(),
  ...createPipelineCommands(),
  createBulkCommand(),
  createJobsCommand(),
  createFilesCommand(),
  createKeysCommand(),
  createRecipesCommand(),
  createRequestsCommand(),
  createUsageCommand(),
  createWebhooksCommand(),
  createAdminCommand(),
];
for (const command of commands) program.addCommand(command);
configureCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = reportError(error);
}

/**
 * Configures a command and its subcommands. Their help shows the global options. Errors are thrown
 * instead of ending the process, so that output to a pipe is not cut off.
 */
function configureCommand(command: Command): void {
  command
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(run with --help for usage)');
  for (const inner of command.commands) configureCommand(inner);
}

/** Prints an error and returns the exit status. */
function reportError(error: unknown): number {
  // Commander has already printed the error. After printing help, it throws with exit code 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof StudioError) {
    if (program.opts<{ json?: boolean }>().json && error.body !== undefined) {
      process.stdout.write(`${JSON.stringify(error.body, null, 2)}\n`);
    }
    process.stderr.write(`studio: ${formatError(error)}\n`);
    return 1;
  }
  process.stderr.write(`studio: ${error instanceof CliError ? error.message : String(error)}\n`);
  return 1;
}

/** Formats an error response: its message, then one line for each further invalid field. */
function formatError({ code, message, status, requestId, details }: StudioError): string {
  if (status === 401) return `${code}: the key is not valid, was revoked or has expired`;
  const request = requestId === null ? '' : ` (request ${requestId})`;
  const fields = details
    .map((detail) => `${detail.path}: ${detail.message}`)
    .filter((field) => field !== message);
  return [message === code ? code : `${code}: ${message}${request}`, ...fields].join('\n  ');
}
