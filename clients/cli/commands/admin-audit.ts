/** `studio admin audit`: runs the ledger audit and prints violated invariants. */
import type { Command } from 'commander';
import { z } from 'zod';
import { toCells, fields, formatTable } from '../output.ts';
import { apiRoots, openSession } from '../session.ts';

/** Adds the command `studio admin audit`. */
export function addAudit(admin: Command): void {
  admin
    .command('audit')
    .description('audit the ledger; exit with 1 if an invariant is violated')
    .option('--all', 'check every row, not only what has changed since the last audit')
    .action(async ({ all }: { all?: true }, command: Command) => {
      const session = openSession(command);
      const schema = z.looseObject({
        clean: z.boolean(),
        findings: z.array(fields),
        checks: z.array(z.looseObject({ found: z.number() })),
      });
      const { body, raw } = await session
        .client('operator')
        .send(`${apiRoots.operator}/audit${all ? '?scope=all' : ''}`, schema);
      const violated = body.checks.filter(({ found }) => found > 0);
      const counts = { violations: 'found', check: 'name' };
      const columns = { check: 'finding', record: 'subject' };
      session.output.show(raw, () =>
        body.clean
          ? 'clean\n'
          : `${formatTable(violated.map((check) => toCells(check, counts)))}\n${formatTable(body.findings.map((finding) => toCells(finding, columns)))}`,
      );
      if (!body.clean) process.exitCode = 1;
    });
}
