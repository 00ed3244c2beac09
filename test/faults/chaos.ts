/** `npm run dev -- chaos`: random kills under load, then the audit and a table (nemesis.ts). */
import { parseArgs } from 'node:util';
import { runNemesis } from './nemesis.ts';
import { startStack } from './stack.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '2' },
    kinds: { type: 'string' },
    items: { type: 'string', default: '0' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const print = (line: string): void => void process.stdout.write(`${line}\n`);

print(`seed ${values.seed}`);
const stack = await startStack({ run: ['api', 'api2', 'worker', 'worker2'] });
try {
  const startedAt = performance.now();
  const outcome = await runNemesis(stack, {
    seed: Number(values.seed),
    seconds: Number(values.minutes) * 60,
    rate: Number(values.rate),
    ...(values.kinds !== undefined && { kindNames: values.kinds.split(',') }),
    items: Number(values.items),
    report: (line) => print(`${((performance.now() - startedAt) / 1000).toFixed(0)} s: ${line}`),
  });
  const { unserved, violations, ...counts } = outcome;
  const names = Object.keys(counts);
  print(`\n| ${names.join(' | ')} | unserved | violations |`);
  print(`|${' --: |'.repeat(names.length + 2)}`);
  const figures = [...Object.values(counts), unserved.length, violations.length];
  print(`| ${figures.join(' | ')} |`);
  for (const line of [...unserved, ...violations]) print(`- ${line}`);
  if (violations.length > 0) process.exitCode = 1;
} finally {
  await stack.close();
}
