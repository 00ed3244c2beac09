/** Command `studio transcribe`. */
import { openAsBlob } from 'node:fs';
import { basename } from 'node:path';
import { Command } from 'commander';
import { CliError } from '../api-client.ts';
import { showEstimate } from '../estimates.ts';
import { omitUndefined } from '../fields.ts';
import { submitJob } from '../jobs.ts';
import { openSession } from '../session.ts';

interface TranscribeOptions {
  language?: string;
  estimate?: boolean;
}

const path = '/audio/transcribe';

/** Creates the command `studio transcribe`. */
export function createTranscribeCommand(): Command {
  return new Command('transcribe')
    .description('transcribe a recording')
    .argument('<source>', 'a file (up to 4.5 MB), a URL, or the id of an upload')
    .option('-l, --language <code>', 'language of the speech, for example en')
    .option('--estimate', 'show the price without starting a job')
    .action(async (source: string, { language, estimate }: TranscribeOptions, command: Command) => {
      const fields = omitUndefined({ language });
      const submission = /^https?:/.test(source)
        ? { body: { audioUrl: source, ...fields } }
        : /^file_[0-9a-f]{32}$/.test(source)
          ? { body: { fileId: source, ...fields } }
          : { form: await buildForm(source, fields) };
      const session = openSession(command);
      if (estimate) {
        await showEstimate(session, `/studio${path}`, submission);
        return;
      }
      const succeeded = await submitJob(session, {
        path,
        ...submission,
        wait: true,
      });
      if (!succeeded) process.exitCode = 1;
    });
}

async function buildForm(file: string, fields: Record<string, unknown>): Promise<FormData> {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, String(value));
  try {
    form.set('file', await openAsBlob(file), basename(file));
  } catch {
    throw new CliError(`${file} cannot be read`);
  }
  return form;
}
