/** `studio admin grant|take-back|refund|window`: changes the credits of an organization. */
import type { Command } from 'commander';
import { CliError } from '../api-client.ts';
import { parseNumber } from '../fields.ts';
import { toCell, formatList } from '../output.ts';
import { formatOrganization } from './admin-organizations.ts';
import { addOperatorAction } from './operator-action.ts';

const creditCommands = [
  { name: 'grant', path: 'grants', description: 'add credits', done: 'granted' },
  {
    name: 'take-back',
    path: 'take-backs',
    description: 'remove credits that are not reserved',
    done: 'taken back',
  },
];

/** Adds the credit commands to `studio admin`. */
export function addCreditCommands(admin: Command): void {
  for (const { name, path, description, done } of creditCommands) {
    addOperatorAction<{ id: string }>({
      command: admin
        .command(`${name} <organizationId>`)
        .argument('<credits>', '', parseNumber)
        .description(`${description}; running it again with the same --id has no effect`)
        .requiredOption(
          '--id <id>',
          'your unique id for this change, for example the invoice number',
        ),
      path: (id) => `/organizations/${id}/${path}`,
      body: ({ id }, [, credits]) => ({ id, credits: Number(credits) }),
      isUnwrapped: true,
      text: (result, [, credits]) =>
        formatList({
          [done]: result['repeated'] === true ? 'already applied' : Number(credits),
          available: toCell(result, 'available'),
        }),
    });
  }
  addOperatorAction<{ id: string; credits?: number }>({
    command: admin
      .command('refund <jobId>')
      .description('refund a charged job; running it again with the same --id has no effect')
      .requiredOption('--id <id>', 'your unique id for this refund, for example the ticket number')
      .option('--credits <credits>', 'amount (default: all not refunded yet)', parseNumber),
    path: (jobId) => `/jobs/${jobId}/refunds`,
    body: ({ id, credits }) => ({ id, credits }),
    isUnwrapped: true,
    text: (refund) => {
      const amount = toCell(refund, 'credits');
      return formatList({
        refunded: refund['repeated'] === true ? `${amount} (already applied)` : amount,
        'total refunded': toCell(refund, 'refunded'),
        available: toCell(refund, 'available'),
      });
    },
  });
  addOperatorAction({
    command: admin
      .command('window <organizationId> <credits>')
      .description('limit the Studio credits used in six hours; `none` removes the limit'),
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
