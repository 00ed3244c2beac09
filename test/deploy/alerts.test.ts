/** Every alert fires over metrics that were recorded for it, and is quiet before; Prometheus' own promtool evaluates the rules. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';

const root = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);
const read = (file: string): unknown =>
  parse(readFileSync(`${root}deploy/prometheus/${file}`, 'utf8'));

const rules = z.object({
  groups: z.array(z.object({ rules: z.array(z.object({ alert: z.string() })) })),
});
const unitTests = z.object({
  tests: z.array(
    z.object({
      alert_rule_test: z
        .array(z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) }))
        .default([]),
      promql_expr_test: z
        .array(z.object({ expr: z.string(), exp_samples: z.array(z.unknown()) }))
        .default([]),
    }),
  ),
});

const alerts = rules
  .parse(read('alerts.yml'))
  .groups.flatMap((group) => group.rules.map(({ alert }) => alert));
const expectations = unitTests.parse(read('alerts.test.yml')).tests.flatMap((test) => [
  ...test.alert_rule_test.map(({ alertname, exp_alerts: fired }) => ({
    alert: alertname,
    fires: fired.length > 0,
  })),
  ...test.promql_expr_test.map(({ expr, exp_samples: samples }) => ({
    alert: /ALERTS\{alertname="(\w+)", alertstate="firing"\}/.exec(expr)?.[1],
    fires: samples.length > 0,
  })),
]);

describe('the rules', () => {
  it.each(alerts)('%s has a test that makes it fire', (alert) => {
    expect(expectations).toContainEqual({ alert, fires: true });
  });

  it('do so in Prometheus, and are quiet before', async (context) => {
    const found = await run('sh', [`${root}deploy/promtool.sh`]).catch((error: Error) => error);
    const missing = found instanceof Error ? found.message : null;
    if (process.env['CI']) expect(missing).toBeNull();
    context.skip(missing !== null, `promtool cannot be had: ${missing}`);
    const promtool = found instanceof Error ? '' : found.stdout.trim();
    const tested = await run(promtool, ['test', 'rules', 'deploy/prometheus/alerts.test.yml'], {
      cwd: root,
    });
    expect(tested.stdout).toContain('SUCCESS');
  });
});
