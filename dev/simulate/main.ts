/**
 * `npm run simulate`: machines, shards, connections, storage and money for a load, computed from what was measured.
 * Without options it prints the loads of docs/scaling.md and the constants; `--write` puts the tables there.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { assumed, measured, type Figure } from './measured.ts';
import { loads, renderConstants, renderPage } from './page.ts';

const usage = `npm run simulate -- [options]
  --jobs <n>              Studio jobs a second
  --provider-seconds <n>  what the provider takes for a job (default 4)
  --chats <n>             chats a second
  --set <name=amount>     another constant (dev/simulate/measured.ts), repeatable
  --write                 put the tables into docs/scaling.md`;

const page = join(import.meta.dirname, '..', '..', 'docs', 'scaling.md');
const place = /<!-- simulation -->\n[^]*?<!-- \/simulation -->/;

/** docs/scaling.md with the tables of what the constants are now. */
export function simulated(): string {
  return readFileSync(page, 'utf8').replace(
    place,
    () => `<!-- simulation -->\n${renderPage()}\n<!-- /simulation -->`,
  );
}

/** @throws Error, one sentence, unless it is a number of at least 0 */
function amountOf(name: string, text: string | undefined): number {
  const amount = Number(text);
  if (text !== undefined && text !== '' && amount >= 0) return amount;
  throw new Error(`${name} must be a number of at least 0, not ${text}`);
}

function change(assignment: string): void {
  const [name = '', text] = assignment.split('=');
  const figures: Record<string, Figure> = { ...measured, ...assumed };
  const figure = figures[name];
  if (!figure) throw new Error(`${name} is none of ${Object.keys(figures).join(', ')}`);
  figure.amount = amountOf(name, text);
}

function run(): void {
  const { values } = parseArgs({
    options: {
      jobs: { type: 'string' },
      'provider-seconds': { type: 'string', default: '4' },
      chats: { type: 'string' },
      set: { type: 'string', multiple: true, default: [] },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  values.set.forEach(change);
  const own = {
    name: 'your load',
    jobs: amountOf('--jobs', values.jobs ?? '0'),
    providerSeconds: amountOf('--provider-seconds', values['provider-seconds']),
    chats: amountOf('--chats', values.chats ?? '0'),
  };
  if (values.help) console.log(usage);
  else if (values.write) writeFileSync(page, simulated());
  else {
    const tables = renderPage(own.jobs + own.chats > 0 ? [own] : loads);
    console.log(`${tables}\n\n**What this is computed from**\n\n${renderConstants()}`);
  }
}

if (import.meta.main) {
  try {
    run();
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
}
