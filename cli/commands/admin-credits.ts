/** `studio admin grant|take-back|refund|window`: changes the credits of an organization. */
import type { Command } from 'commander';
import { CliError } from '../api-client.ts';
import { parseNumber } from '../fields.ts';
import { toCell, list } from '../output.ts';
import { formatOrganization } from './admin-organizations.ts';
import { addWrite } from './admin-writes.ts';

const creditCommands = [
  { name: 'grant', path: 'grants', description: 'add credits', done: 'granted' },
  {
    name: 'take-back',
    path: 'take-backs',
    description: 'remove credits that are not reserved',
    done: 'taken back',
  },
];

/** Adds the commands to `studio admin`. */
export function addCreditCommands(admin: Command): void {
  for (const { name, path, description, done } of creditCommands) {
    addWrite<{ id: string }>({
      command: admin
        .command(`${name} <organizationId>`)
        .argument('<credits>', '', parseNumber)
        .description(`${description}; a repeated --id has no effect`)
        .requiredOption(
          '--id <id>',
          'your unique id for this change, for example the invoice number',
        ),
      path: (id) => `/organizations/${id}/${path}`,
      body: ({ id }, [, credits]) => ({ id, credits: Number(credits) }),
      bare: true,
      text: (result, [, credits]) =>
        list({
          [done]: result['repeated'] === true ? 'already applied' : Number(credits),
          available: toCell(result, 'available'),
        }),
    });
  }
  addWrite<{ id: string; credits?: number }>({
    command: admin
      .command('refund <jobId>')
      .description('refund credits charged for a job; a repeated --id has no effect')
      .requiredOption('--id <id>', 'your unique id for this refund, for example the ticket number')
      .option('--credits <credits>', 'amount (default: everything not yet refunded)', parseNumber),
    path: (jobId) => `/jobs/${jobId}/refunds`,
    body: ({ id, credits }) => ({ id, credits }),
    bare: true,
    text: (refund) => {
      const amount = toCell(refund, 'credits');
      return list({
        refunded: refund['repeated'] === true ? `${amount} already applied` : amount,
        'total refunded': toCell(refund, 'refunded'),
        available: toCell(refund, 'available'),
      });
    },
  });
  addWrite({
    command: admin
      .command('window <organizationId> <credits>')
      .description('set the six-hour allowance; `none` removes the limit'),
    method: 'PUT',
    path: (id) => `/organizations/${id}/window-allowance`,
    body: (_, [, credits = '']) => ({ credits: parseCreditsOrNone(credits) }),
    text: formatOrganization,
  });
}

function parseCreditsOrNone(text: string): number | null {
  if (text === 'none') return null;
  if (!/^\d+(\.\d+)?$/.test(text)) {
    throw new CliError(`credits must be a number or none (received ${JSON.stringify(text)})`);
  }
  return Number(text);
}
