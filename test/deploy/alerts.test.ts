/** Every alert fires for metrics that were recorded for it, and not before, according to promtool. */
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { alertRules, findPromtool, readYaml } from './alert-rules.ts';

const unitTest = z.looseObject({
  alert_rule_test: z
    .array(z.looseObject({ alertname: z.string(), exp_alerts: z.array(z.unknown()) }))
    .default([]),
  promql_expr_test: z
    .array(z.looseObject({ expr: z.string(), exp_samples: z.array(z.unknown()) }))
    .default([]),
});
const { tests } = z.object({ tests: z.array(unitTest) }).parse(readYaml('alerts.test.yml'));

const findAlert = (expr: string): string =>
  /ALERTS\{alertname="(\w+)", alertstate="firing"\}/.exec(expr)?.[1] ?? '';
const listExpectations = (test: z.infer<typeof unitTest>) => [
  ...test.alert_rule_test.map(({ alertname, exp_alerts: fired }) => ({
    alert: alertname,
    fires: fired.length > 0,
  })),
  ...test.promql_expr_test.map(({ expr, exp_samples: samples }) => ({
    alert: findAlert(expr),
    fires: samples.length > 0,
  })),
];

describe('the alert rules', () => {
  it.each(alertRules)('$alert has a test that makes it fire', ({ alert }) => {
    expect(tests.flatMap(listExpectations)).toContainEqual({ alert, fires: true });
  });

  it('fire in Prometheus at the expected time, and not before', async ({ skip }) => {
    const testRules = await findPromtool();
    if (typeof testRules === 'string') skip(testRules);
    else {
      const named = tests.map((test) => ({
        alerts: listExpectations(test).map(({ alert }) => alert),
        test,
      }));
      expect(await testRules(named)).toContain('SUCCESS');
    }
  });
});
