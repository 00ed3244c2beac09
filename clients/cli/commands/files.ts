/** `studio files list|delete`: job outputs and uploaded files. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { addListing } from '../listings.ts';

const path = '/storage/files';

/** Creates the command `studio files`. */
export function createFilesCommand(): Command {
  const files = new Command('files').description('list and delete the files of the organization');
  addListing({
    as: 'caller',
    command: files
      .command('list')
      .description('list files, newest first')
      .option('--kind <kind>', 'only files of this kind: artifact or upload'),
    path: () => path,
    columns: {
      created: 'createdAt',
      kind: 'kind',
      file: 'fileId',
      job: 'jobId',
      type: 'contentType',
      bytes: 'sizeBytes',
      name: 'filename',
    },
  });
  addAction({
    command: files
      .command('delete')
      .argument('<id>', 'id of an upload, or of the job whose outputs to delete')
      .description('delete an upload, or the outputs of a job'),
    method: 'DELETE',
    path: (id) => (id.startsWith('job_') ? `/studio/jobs/${id}/media` : `${path}/${id}`),
    text: (_, [id]) => `deleted ${id}\n`,
  });
  return files;
}
