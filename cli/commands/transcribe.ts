/** `studio transcribe`: speech to text, of a local file, a URL or an uploaded file. */
import { openAsBlob } from 'node:fs';
import { basename } from 'node:path';
import { Command } from 'commander';
import { CliError } from '../api-client.ts';
import { showEstimate } from '../estimates.ts';
import { given } from '../fields.ts';
import { submitJob } from '../jobs.ts';
import { sessionOf } from '../session.ts';

interface TranscribeOptions {
  language?: string;
  estimate?: boolean;
}

const path = '/audio/transcribe';

/** `studio transcribe`. */
export function transcribeCommand(): Command {
  return new Command('transcribe')
    .description('transcribe a recording')
    .argument('<source>', 'a file (up to 4.5 MB), a URL, or the id of an upload')
    .option('-l, --language <code>', 'language that is spoken')
    .option('--estimate', 'only show what it would cost')
    .action(async (source: string, { language, estimate }: TranscribeOptions, command: Command) => {
      const fields = given({ language });
      const submission = /^https?:/.test(source)
        ? { body: { audioUrl: source, ...fields } }
        : /^file_[0-9a-f]{32}$/.test(source)
          ? { body: { fileId: source, ...fields } }
          : { form: await formOf(source, fields) };
      const session = sessionOf(command);
      if (estimate) {
        await showEstimate(session, `/studio${path}`, submission);
        return;
      }
      const succeeded = await submitJob(session, { path, ...submission, wait: true });
      if (!succeeded) process.exitCode = 1;
    });
}

async function formOf(file: string, fields: Record<string, unknown>): Promise<FormData> {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, String(value));
  try {
    form.set('file', await openAsBlob(file), basename(file));
  } catch {
    throw new CliError(`${file} cannot be read`);
  }
  return form;
}
