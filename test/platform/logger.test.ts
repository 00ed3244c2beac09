import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const logger = fileURLToPath(new URL('../../platform/logger.ts', import.meta.url));
const lineCount = 3000;

/** Runs a program that logs more than a pipe holds, and then ends in its own way. */
function logged(end: string): { time: string }[] {
  const program = `
    const { createLogger } = await import(${JSON.stringify(logger)});
    const logger = createLogger('test', 'info');
    for (let index = 0; index < ${lineCount}; index += 1) logger.info({ index }, 'a line');
    ${end}`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

it.each([
  ['by itself', ''],
  ['by an error that nobody caught', "throw new Error('unforeseen');"],
  ['by SIGKILL', "process.kill(process.pid, 'SIGKILL');"],
  ['with a fatal line', "logger.fatal('the end'); process.exit(1);"],
])('a process that ends %s loses no line', (_how, end) => {
  const lines = logged(end);
  expect(lines.length).toBe(end.includes('fatal') ? lineCount + 1 : lineCount);
  expect(lines.slice(0, lineCount)).toEqual(
    Array.from({ length: lineCount }, (_, index) =>
      expect.objectContaining({ index, msg: 'a line', name: 'test' }),
    ),
  );
  const times = lines.map(({ time }) => time);
  expect(times).toEqual(times.toSorted());
  expect(Date.parse(times[0] ?? '')).toBeGreaterThan(Date.now() - 60_000);
});

it('an error is logged without the end of a long message', () => {
  const end = `
    const message = 'x'.repeat(600) + '\\nsecret';
    logger.warn({ error: new Error(message, { cause: new Error(message) }) });`;
  const line = JSON.stringify(logged(end).at(-1));
  expect(line).toContain('xxx');
  expect(line).toMatch(/at .*:\d+:\d+/);
  expect(line).not.toContain('secret');
});
