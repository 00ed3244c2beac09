/**
 * `npm run studio -- …`: command line of the gateway, for callers and operators. It uses only the
 * HTTP API. Exit status: 0 success, 1 rejected or failed, 2 invalid command line.
 */
import { Command, CommanderError } from 'commander';
import { StudioError } from '../clients/typescript/errors.ts';
import { CliError } from './api-client.ts';
import { adminCommand } from './commands/admin.ts';
import { chatCommand, modelsCommand } from './commands/chat.ts';
import { filesCommand } from './commands/files.ts';
import { jobsCommand } from './commands/jobs.ts';
import { keysCommand } from './commands/keys.ts';
import { studioCommands } from './commands/studio.ts';
import { transcribeCommand } from './commands/transcribe.ts';
import { usageCommand } from './commands/usage.ts';

const program = new Command('studio')
  .description('Chat, images, video, voice, music and sound through the gateway')
  .option('--api-url <url>', 'URL of the gateway (default: STUDIO_API_URL, else the local stack)')
  .option('--api-key <key>', 'API key (default: STUDIO_API_KEY, else the key of the local stack)')
  .option(
    '--admin-key <key>',
    'key of an operator (default: STUDIO_ADMIN_KEY, else the key of the local stack)',
  )
  .option('--json', 'print responses as JSON');

const commands = [
  modelsCommand(),
  chatCommand(),
  ...studioCommands(),
  transcribeCommand(),
  jobsCommand(),
  filesCommand(),
  keysCommand(),
  usageCommand(),
  adminCommand(),
];
for (const command of commands) program.addCommand(command);
configure(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/**
 * Configures a command and its subcommands: their help shows the global options, and an error is
 * thrown instead of ending the process, so that a pending write to a pipe is completed.
 */
function configure(command: Command): void {
  command
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(add --help for the usage)');
  for (const inner of command.commands) configure(inner);
}

/** Prints an error and returns the exit status. */
function report(error: unknown): number {
  // Commander has already printed its message. Help has exit code 0 and is no error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof StudioError) {
    if (program.opts<{ json?: boolean }>().json && error.body !== undefined) {
      process.stdout.write(`${JSON.stringify(error.body, null, 2)}\n`);
    }
    process.stderr.write(`studio: ${formatError(error)}\n`);
    return 1;
  }
  const known = error instanceof CliError;
  process.stderr.write(`studio: ${known ? error.message : String(error)}\n`);
  return 1;
}

/** Formats an error response: one line, and a line for each field that the message omits. */
function formatError({ code, message, status, requestId, details }: StudioError): string {
  if (status === 401) return `${code}: the key is not valid, was revoked or has expired`;
  const request = requestId === null ? '' : ` (request ${requestId})`;
  const fields = details
    .map((detail) => `${detail.path}: ${detail.message}`)
    .filter((field) => field !== message);
  return [message === code ? code : `${code}: ${message}${request}`, ...fields].join('\n  ');
}
