/** `studio webhooks list|create|change|pause|resume|delete|rotate|test|replay|deliveries`. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { collectValue, omitUndefined, parseDurationMs } from '../fields.ts';
import { addListing } from '../listings.ts';
import { formatList, toCells, type Columns, type Fields } from '../output.ts';

const path = '/webhook-endpoints';

const columns: Columns = {
  id: 'endpointId',
  url: 'url',
  events: 'events',
  paused: 'paused',
  delivered: 'delivered',
  'failed attempts': 'failed',
  'last delivered': 'lastDeliveredAt',
  'failing since': 'failingSince',
  'last status': 'lastStatus',
  'last error': 'lastError',
  description: 'description',
};

interface SettingOptions {
  url?: string;
  event?: string[];
  description?: string;
}
const buildSettings = ({ url, event: events, description }: SettingOptions, more: object = {}) =>
  omitUndefined({ url, events, description, ...more });
const addSettings = (command: Command): Command =>
  command
    .option(
      '--event <type>',
      'event to send (repeatable), such as studio.job.completed',
      collectValue,
    )
    .option('--description <text>', 'text of your own');

const formatEndpoint = (endpoint: Fields): string => formatList(toCells(endpoint, columns));
const formatSecret = (answer: Fields): string =>
  `${formatList(toCells(answer, { id: 'endpointId', secret: 'secret' }))}Save this secret now: it will not be shown again.\n`;

/** Creates the command `studio webhooks`. */
export function createWebhooksCommand(): Command {
  const webhooks = new Command('webhooks').description(
    'manage the webhook endpoints of the organization, and list deliveries',
  );
  addListing({
    as: 'caller',
    command: webhooks.command('list').description('list webhook endpoints with their health'),
    path: () => path,
    columns,
    isUnpaged: true,
  });
  addAction<SettingOptions>({
    command: addSettings(
      webhooks
        .command('create <url>')
        .description('create an endpoint; its secret is shown only once'),
    ),
    path: () => path,
    body: (options, [url]) => buildSettings(options, { url }),
    canRetry: true,
    text: formatSecret,
  });
  addAction<SettingOptions>({
    command: addSettings(
      webhooks.command('change <endpointId>').description('change an endpoint'),
    ).option('--url <url>', 'new URL'),
    method: 'PATCH',
    path: (endpointId) => `${path}/${endpointId}`,
    body: (options) => buildSettings(options),
    text: formatEndpoint,
  });
  for (const [name, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    addAction({
      command: webhooks
        .command(`${name} <endpointId>`)
        .description(paused ? 'send nothing to an endpoint; its events wait' : 'send what waits'),
      method: 'PATCH',
      path: (endpointId) => `${path}/${endpointId}`,
      body: () => ({ paused }),
      text: formatEndpoint,
    });
  }
  addEndpointActions(webhooks);
  addListing({
    as: 'caller',
    command: webhooks
      .command('deliveries')
      .description('list the webhooks of jobs, newest job first')
      .option('--state <state>', 'failing, waiting, delivering, delivered, gone or failed')
      .option('--endpoint-id <endpointId>', 'only webhooks of this endpoint'),
    path: () => '/webhooks/deliveries',
    columns: {
      job: 'jobId',
      event: 'event',
      url: 'url',
      state: 'state',
      attempts: 'attempts',
      status: 'lastStatus',
      error: 'lastError',
    },
  });
  return webhooks;
}

function addEndpointActions(webhooks: Command): void {
  addAction({
    command: webhooks.command('delete <endpointId>').description('delete an endpoint'),
    method: 'DELETE',
    path: (endpointId) => `${path}/${endpointId}`,
    isUnwrapped: true,
    text: (_, [endpointId]) => `deleted ${endpointId}\n`,
  });
  addAction<{ overlap?: number }>({
    command: webhooks
      .command('rotate <endpointId>')
      .description('replace the secret of an endpoint with a new one')
      .option('--overlap <duration>', 'time for which both sign (default 1d)', parseDurationMs),
    path: (endpointId) => `${path}/${endpointId}/rotate`,
    body: ({ overlap }) =>
      overlap === undefined ? {} : { overlapSeconds: Math.ceil(overlap / 1000) },
    canRetry: true,
    isUnwrapped: true,
    text: formatSecret,
  });
  addAction({
    command: webhooks.command('test <endpointId>').description('send a test webhook'),
    method: 'POST',
    path: (endpointId) => `${path}/${endpointId}/test`,
    text: (result) =>
      formatList(
        toCells(result, {
          outcome: 'outcome',
          status: 'status',
          error: 'error',
          'duration (ms)': 'durationMs',
        }),
      ),
  });
  addAction<{ since: string }>({
    command: webhooks
      .command('replay <endpointId>')
      .description('send the undelivered webhooks of an endpoint again')
      .requiredOption('--since <time>', 'only those attempted since this ISO 8601 time'),
    path: (endpointId) => `${path}/${endpointId}/replay`,
    body: ({ since }) => ({ since }),
    text: (result) => formatList(toCells(result, { replayed: 'replayed' })),
  });
}
