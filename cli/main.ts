/**
 * `npm run studio -- …`: the gateway at the terminal, for callers and operators. It speaks only HTTP,
 * as every other client does. Exit status: 0 done, 1 refused or failed, 2 not understood.
 */
import { Command, CommanderError } from 'commander';
import { StudioError } from '../clients/typescript/errors.ts';
import { CliError } from './api-client.ts';
import { adminCommand } from './commands/admin.ts';
import { chatCommand, modelsCommand } from './commands/chat.ts';
import { filesCommand } from './commands/files.ts';
import { jobsCommand } from './commands/jobs.ts';
import { keysCommand } from './commands/keys.ts';
import { studioCommands, transcribeCommand } from './commands/studio.ts';
import { usageCommand } from './commands/usage.ts';

const program = new Command('studio')
  .description('Chat, images, video, voice, music and sound through the gateway')
  .option('--api-url <url>', 'the gateway (STUDIO_API_URL, else the local stack)')
  .option('--api-key <key>', 'your key (STUDIO_API_KEY, else that of the local stack)')
  .option(
    '--admin-key <key>',
    'the operators’ key (STUDIO_ADMIN_KEY, else that of the local stack)',
  )
  .option('--json', 'print answers as JSON');

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
settle(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/**
 * What all commands share: the global options in their help, and an exception where commander would
 * exit, so that a pending write to a pipe still gets out.
 */
function settle(command: Command): void {
  command
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(--help says more)');
  for (const inner of command.commands) settle(inner);
}

/** Says what went wrong; returns the exit status. */
function report(error: unknown): number {
  // Commander has already said it; help and version are no errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof StudioError) {
    if (program.opts<{ json?: boolean }>().json && error.body !== undefined) {
      process.stdout.write(`${JSON.stringify(error.body, null, 2)}\n`);
    }
    process.stderr.write(`studio: ${textOf(error)}\n`);
    return 1;
  }
  const known = error instanceof CliError;
  process.stderr.write(`studio: ${known ? error.message : String(error)}\n`);
  return 1;
}

/** Describes a refusal in a line, and each field at fault in one more. */
function textOf({ code, message, requestId, details }: StudioError): string {
  const request = requestId === null ? '' : ` (request ${requestId})`;
  const fields = details.map((detail) => `\n  ${detail.path}: ${detail.message}`);
  return `${code}${message === code ? '' : `: ${message}${request}`}${fields.join('')}`;
}
