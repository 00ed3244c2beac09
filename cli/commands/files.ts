/** `studio files list|delete`: outputs of jobs, and uploaded files. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { cellsOf, listAnswer, table } from '../output.ts';
import { numeric } from '../fields.ts';
import { sessionOf } from '../session.ts';

const path = '/api/v1/storage/files';
const fileColumns = {
  created: 'createdAt',
  kind: 'kind',
  file: 'fileId',
  job: 'jobId',
  type: 'contentType',
  bytes: 'sizeBytes',
  name: 'filename',
};

interface ListOptions {
  kind?: string;
  limit?: number;
  cursor?: string;
}

/** Makes the command `studio files`. */
export function filesCommand(): Command {
  const files = new Command('files').description('files of the organization');
  files
    .command('list', { isDefault: true })
    .alias('ls')
    .description('list files, newest first')
    .option('--kind <kind>', 'artifact or upload')
    .option('--limit <n>', 'maximum number of files, 1–100', numeric)
    .option('--cursor <cursor>', 'cursor of the next page')
    .action(async ({ kind, limit, cursor }: ListOptions, command: Command) => {
      const session = sessionOf(command);
      const query = { kind, limit, cursor };
      const { body, raw } = await session.api().send(path, listAnswer, { query });
      session.output.show(raw, () => table(body.data.map((each) => cellsOf(each, fileColumns))));
      if (body.nextCursor) session.output.note(`more: --cursor ${body.nextCursor}`);
    });
  addAction({
    command: files
      .command('delete')
      .argument('<id>', 'id of an upload, or of a job')
      .description('delete an upload or the outputs of a job'),
    method: 'DELETE',
    path: (id) => (id.startsWith('job_') ? `/api/v1/studio/jobs/${id}/media` : `${path}/${id}`),
    text: (_, [id]) => `deleted ${id}\n`,
  });
  return files;
}
