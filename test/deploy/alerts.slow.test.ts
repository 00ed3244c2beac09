/** Every alert fires for metrics that were recorded for it, and not before, according to promtool. */
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { conditions, failedAttemptsMin, findAttention } from '../../process/attention.ts';
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

  it.each(conditions)(
    '$alert has the limit, severity and runbook that the overview uses',
    (row) => {
      const { alert, severity, runbook, limit } = row;
      const rule = alertRules.find((candidate) => candidate.alert === alert);
      expect(rule).toMatchObject({ labels: { severity } });
      expect(rule?.annotations.runbook_url.split('/docs/runbooks/')[1]).toBe(runbook);
      const limits = [...(rule?.expr ?? '').matchAll(/> ([\d.* ]*\d)/g)].map(([, product = '']) =>
        product.split('*').reduce((value, factor) => value * Number(factor), 1),
      );
      // A queue without workers is the only rule about a minimum.
      if (alert === 'NobodyPolls') expect(rule?.expr).toMatch(/ == 0$/);
      else expect(limits).toContain(limit);
      if (alert === 'CallerWebhooksFail') expect(rule?.expr).toContain(`>= ${failedAttemptsMin}`);
    },
  );

  const counts = {
    jobsOverdue: 0,
    jobsVerifying: 0,
    jobsAwaiting: 0,
    jobsAwaitingCredits: 0,
    reservationOverdueSeconds: 900,
    callerWebhooksOpen: 0,
    callerWebhookAgeSeconds: 0,
    bulksOpen: 0,
    bulksPaused: 0,
    bulksHanging: 0,
    providersPaused: 0,
  };
  const queue = { name: 'studio', task: 'workflow', pollers: 1, backlogAgeSeconds: 60 };
  const audit = { scope: 'changes', findings: 0, entries: 1, reservations: 1 } as const;
  const calm = {
    counts,
    chatAgeSeconds: 1800,
    unknownLastHour: 0,
    webhooks: { failing: 9, recentAttempts: 9, recentFailed: 9 },
    audits: [{ ...audit, finishedAtMs: Date.now() }],
    queues: [queue],
  };
  it.each([
    [[], {}],
    [[], { queues: null }],
    [['JobsOverdue'], { counts: { ...counts, jobsOverdue: 1 } }],
    [['ReservationStuck'], { counts: { ...counts, reservationOverdueSeconds: 901 } }],
    [['ProviderPaused'], { counts: { ...counts, providersPaused: 1 } }],
    [['CallerWebhookLate'], { counts: { ...counts, callerWebhookAgeSeconds: 3601 } }],
    [['BulkJobHangs'], { counts: { ...counts, bulksHanging: 1 } }],
    [['ChatReservationStuck'], { chatAgeSeconds: 1801 }],
    [['OutcomeUnknown'], { unknownLastHour: 1 }],
    [['CallerWebhooksFail'], { webhooks: { failing: 1, recentAttempts: 19, recentFailed: 10 } }],
    [[], { webhooks: { failing: 1, recentAttempts: 20, recentFailed: 10 } }],
    [['LedgerBroken'], { audits: [{ ...audit, findings: 1, finishedAtMs: Date.now() }] }],
    [['LedgerNotAudited'], { audits: [{ ...audit, finishedAtMs: Date.now() - 3_700_000 }] }],
    [
      ['NobodyPolls', 'Backlog'],
      {
        queues: [
          { ...queue, backlogAgeSeconds: 61 },
          { ...queue, pollers: 0 },
        ],
      },
    ],
  ])('%j need attention when the state is %j', (alerts, change) => {
    expect(findAttention({ ...calm, ...change }).map(({ alert }) => alert)).toEqual(alerts);
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
