/**
 * Every alert fires for metrics that were recorded for it, and not before; Prometheus’ own promtool
 * evaluates the rules.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { findPromtool } from './promtool.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
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

describe('the alert rules', () => {
  it.each(alerts)('%s has a test that makes it fire', (alert) => {
    expect(expectations).toContainEqual({ alert, fires: true });
  });

  it('fire in Prometheus at the expected time, and not before', async (context) => {
    const testRules = await findPromtool();
    if (typeof testRules === 'string') context.skip(testRules);
    else expect(await testRules('deploy/prometheus/alerts.test.yml')).toContain('SUCCESS');
  });
});
