/** The alert rules of deploy/prometheus, and Prometheus’ own promtool, which evaluates them. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { z } from 'zod';
import { newFolder } from '../harness/folders.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);

/** Parses a YAML file of deploy/prometheus. */
export const readYaml = (file: string): unknown =>
  parse(readFileSync(join(root, 'deploy/prometheus', file), 'utf8'));

const rule = z.looseObject({
  alert: z.string(),
  expr: z.string(),
  labels: z.object({ severity: z.string() }),
  annotations: z.looseObject({ runbook_url: z.string() }),
});
const ruleFile = z.object({ groups: z.array(z.object({ rules: z.array(rule) })) });

/** All alert rules. */
export const alertRules = ruleFile
  .parse(readYaml('alerts.yml'))
  .groups.flatMap(({ rules }) => rules);

/** A unit test of promtool, and the alerts that it names. */
export interface RuleTest {
  alerts: readonly string[];
  test: object;
}

/** Runs unit tests of the rules. @throws Error with the output of promtool if one fails */
export type TestRules = (tests: readonly RuleTest[]) => Promise<string>;

/**
 * Finds promtool, or installs it into `.cache`; returns the reason if neither is possible.
 * @throws Error instead in CI
 */
export async function findPromtool(): Promise<TestRules | string> {
  try {
    const promtool = (await run('sh', [`${root}deploy/promtool.sh`])).stdout.trim();
    return async (tests) => {
      const files = tests.map(writeTest);
      return (await run(promtool, ['test', 'rules', ...files])).stdout;
    };
  } catch (error) {
    if (process.env['CI']) throw error;
    return `promtool is not available: ${String(error).slice(0, 200)}`;
  }
}

/**
 * Writes a test and the rules of its alerts; returns the path of the test. promtool evaluates every
 * rule of a file for every minute of every test. The files are JSON, which is YAML too.
 */
function writeTest({ alerts, test }: RuleTest): string {
  const folder = newFolder();
  const rules = alertRules.filter(({ alert }) => alerts.includes(alert));
  const groups = [{ name: 'rules', rules }];
  writeFileSync(join(folder, 'rules.json'), JSON.stringify({ groups }));
  const file = { rule_files: ['rules.json'], evaluation_interval: '1m', tests: [test] };
  writeFileSync(join(folder, 'test.json'), JSON.stringify(file));
  return join(folder, 'test.json');
}
