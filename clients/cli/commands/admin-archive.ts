/** `studio admin archive`: archives old jobs and chats, and checks the archive. */
import type { Command } from 'commander';
import { z } from 'zod';
import { fields, formatTable, toCells } from '../output.ts';
import { apiRoots, openSession } from '../session.ts';
import { addAuditOptions, type AuditOptions } from './operator-action.ts';

const archived = z.looseObject({
  segments: z.number(),
  reservations: z.number(),
  complete: z.boolean(),
});
const checked = z.looseObject({
  segments: z.number(),
  findings: z.array(fields),
  nextCursor: z.string().nullable(),
});

/** Adds the command `studio admin archive`, with `verify`. */
export function addArchive(admin: Command): void {
  const path = `${apiRoots.operator}/archive`;
  const archive = admin
    .command('archive')
    .description('move old jobs, chats and ledger entries to the store');
  addAuditOptions(
    archive
      .command('run', { isDefault: true })
      .description('archive what ended before a month')
      .requiredOption('--before <date>', 'first day of the first month that is not archived'),
  ).action(async (body: AuditOptions & { before: string }, command: Command) => {
    const session = openSession(command);
    const total = { segments: 0, reservations: 0 };
    for (let complete = false; !complete;) {
      // A request works for some seconds.
      const { body: answer } = await session.client('operator').send(path, archived, { body });
      total.segments += answer.segments;
      total.reservations += answer.reservations;
      complete = answer.complete;
    }
    session.output.show(
      total,
      () => `archived ${total.reservations} jobs and chats in ${total.segments} segments\n`,
    );
  });
  archive
    .command('verify')
    .description('read the archive and audit it; exit with 1 if an invariant is violated')
    .action(async (_: object, command: Command) => {
      const session = openSession(command);
      const total: { segments: number; findings: z.infer<typeof fields>[] } = {
        segments: 0,
        findings: [],
      };
      for (let cursor: string | null = ''; cursor !== null;) {
        const query: string = cursor && `?cursor=${cursor}`;
        const { body } = await session.client('operator').send(`${path}/check${query}`, checked);
        total.segments += body.segments;
        total.findings.push(...body.findings);
        cursor = body.nextCursor;
      }
      session.output.show(total, () =>
        total.findings.length === 0
          ? `clean: ${total.segments} segments\n`
          : formatTable(
              total.findings.map((one) => toCells(one, { check: 'finding', segment: 'subject' })),
            ),
      );
      if (total.findings.length > 0) process.exitCode = 1;
    });
}
