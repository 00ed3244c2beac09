/**
 * `npm run dev -- simulate`: calculates machines, shards, connections, storage and cost of a load
 * from measured constants. Without options it prints the loads of docs/scaling.md and the
 * constants; `--write` updates the tables there.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { number } from '../bench/options.ts';
import type { Load } from './loads.ts';
import { assumed, measured, type Figure } from './measured.ts';
import { loads, renderConstants, renderPage } from './page.ts';

const page = join(import.meta.dirname, '..', '..', 'docs', 'scaling.md');
const place = /<!-- simulation -->\n[^]*?<!-- \/simulation -->/;

/** Returns docs/scaling.md with tables made from the current constants. */
export function simulated(): string {
  return readFileSync(page, 'utf8').replace(
    place,
    () => `<!-- simulation -->\n${renderPage()}\n<!-- /simulation -->`,
  );
}

function change(assignment: string): void {
  const [name = '', text = ''] = assignment.split('=');
  const figures: Record<string, Figure> = { ...measured, ...assumed };
  const figure = figures[name];
  if (!figure) throw new InvalidArgumentError(`${name} is none of ${Object.keys(figures).join()}`);
  figure.amount = number(text);
}

function run(): void {
  const options = new Command('simulate')
    .description('Machines, shards, connections, storage and money for a load.')
    .option('--jobs <n>', 'Studio jobs a second', number, 0)
    .option('--provider-seconds <n>', 'what the provider takes for a job', number, 4)
    .option('--chats <n>', 'chats a second', number, 0)
    .option(
      '--set <name=amount>',
      'another constant (dev/simulate/measured.ts), repeatable',
      change,
    )
    .option('--write', 'put the tables into docs/scaling.md')
    .parse()
    .opts<Omit<Load, 'name'> & { write?: true }>();
  if (options.write) {
    writeFileSync(page, simulated());
    return;
  }
  const isOwn = options.jobs + options.chats > 0;
  const tables = renderPage(isOwn ? [{ ...options, name: 'your load' }] : loads);
  console.log(`${tables}\n\n**What this is computed from**\n\n${renderConstants()}`);
}

if (import.meta.main) run();
