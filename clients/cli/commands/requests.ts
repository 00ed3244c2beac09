/** `studio requests list|get`: chats, embeddings and rejected requests. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { collectPair } from '../fields.ts';
import { addListing } from '../listings.ts';
import { formatList, toCells, type Columns } from '../output.ts';

const columns: Columns = {
  created: 'createdAt',
  kind: 'kind',
  model: 'model',
  provider: 'provider',
  status: 'status',
  error: 'error.code',
  'input tokens': 'inputTokens',
  'output tokens': 'outputTokens',
  'first token (ms)': 'firstTokenMs',
  'duration (ms)': 'durationMs',
  credits: 'credits',
  id: 'id',
};

/** Creates the command `studio requests`. */
export function createRequestsCommand(): Command {
  const requests = new Command('requests').description(
    'list chats, embeddings and rejected requests of the organization',
  );
  addListing({
    as: 'caller',
    command: requests
      .command('list')
      .description('list requests, newest first; rejected ones of the last 24 hours')
      .option('--kind <kind>', 'chat, embedding or studio')
      .option('--status <status>', 'running, completed, failed, canceled or rejected')
      .option('--model <id>', 'only requests of this model')
      .option('--provider <name>', 'only requests that this provider served')
      .option('--key <keyId>', 'only requests with this key')
      .option(
        '--metadata <name=value>',
        'only requests with this metadata pair (repeatable)',
        collectPair,
      )
      .option('--after <time>', 'only requests after this ISO 8601 time')
      .option('--before <time>', 'only requests before this ISO 8601 time'),
    path: () => '/requests',
    columns,
  });
  addAction({
    command: requests
      .command('get <id>')
      .description('show a request by its id, or by the request id of its response'),
    path: (id) => `/requests/${id}`,
    text: (request) =>
      formatList(
        toCells(request, {
          ...columns,
          'error message': 'error.message',
          'invalid field': 'error.field',
          path: 'path',
          key: 'keyId',
          request: 'requestId',
        }),
      ),
  });
  return requests;
}
