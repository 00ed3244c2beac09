/**
 * Finds conditions that need an operator: the rules of deploy/prometheus/alerts.yml that the database and Temporal show
 * without Prometheus. A test compares each alert, its limit, severity and runbook with its rule. A rule fires only after
 * its condition has been true for minutes.
 */
import type { z } from 'zod';
import { formatDuration } from '../domain/durations.ts';
import type { LastAudit } from '../ledger/ledger-reads.ts';
import type { openCounts, WebhookFailures } from './gateway-state.ts';

/** State of the gateway from which the conditions are read. */
export interface AttentionState {
  counts: z.infer<typeof openCounts>;
  /** Age of the oldest open chat. */
  chatAgeSeconds: number;
  /** Jobs that ended without an outcome in the last hour. */
  unknownLastHour: number;
  webhooks: WebhookFailures;
  audits: readonly LastAudit[];
  /** Null if Temporal cannot be reached. */
  queues:
    | readonly { name: string; task: string; pollers: number; backlogAgeSeconds: number }[]
    | null;
}

interface Condition {
  alert: string;
  severity: 'page' | 'ticket';
  /** Page below docs/runbooks. */
  runbook: string;
  /** The condition is true for values above the limit. */
  limit: number;
  /** Returns the current values, with the messages to show for those above the limit. */
  read: (state: AttentionState) => readonly Value[];
}

interface Value {
  value: number;
  message: string;
}

/** Minimum number of failed attempts, so that a few failures in a quiet time are no alert. */
export const failedAttemptsMin = 10;

const stuck = 'stuck-reservation.md';
const otherAlerts = 'README.md#other-alerts';
const formatSeconds = (seconds: number): string => formatDuration(seconds * 1000);

/** Texts for the scopes of an audit. */
const auditNames = { changes: 'the audit of the changes', all: 'the audit of all rows' } as const;

/** Returns a function that reads the time since the last audit of a scope; no value if there was none. */
const readAuditAge =
  (scope: LastAudit['scope']) =>
  ({ audits }: AttentionState): readonly Value[] =>
    audits
      .filter((audit) => audit.scope === scope)
      .map(({ finishedAtMs }) => {
        const value = (Date.now() - finishedAtMs) / 1000;
        return {
          value,
          message: `${formatSeconds(value)} have passed since ${auditNames[scope]}.`,
        };
      });

/** All conditions. */
export const conditions: readonly Condition[] = [
  {
    alert: 'LedgerBroken',
    severity: 'page',
    runbook: 'audit-row.md',
    limit: 0,
    read: ({ audits }) =>
      audits.map(({ scope, findings }) => ({
        value: findings,
        message: `Violations found by ${auditNames[scope]}: ${findings}.`,
      })),
  },
  ...[['changes', 3600] as const, ['all', 172_800] as const].map(([scope, limit]): Condition => ({
    alert: 'LedgerNotAudited',
    severity: 'ticket',
    runbook: 'audit-row.md',
    limit,
    read: readAuditAge(scope),
  })),
  {
    alert: 'ReservationStuck',
    severity: 'page',
    runbook: stuck,
    limit: 900,
    read: ({ counts: { reservationOverdueSeconds: value } }) => [
      { value, message: `A job should have ended ${formatSeconds(value)} ago.` },
    ],
  },
  {
    alert: 'ChatReservationStuck',
    severity: 'ticket',
    runbook: stuck,
    limit: 1800,
    read: ({ chatAgeSeconds: value }) => [
      { value, message: `A chat has been open for ${formatSeconds(value)}.` },
    ],
  },
  {
    alert: 'JobsOverdue',
    severity: 'page',
    runbook: stuck,
    limit: 0,
    read: ({ counts: { jobsOverdue: value } }) => [
      { value, message: `Jobs past their deadline that are not settled: ${value}.` },
    ],
  },
  {
    alert: 'BulkJobHangs',
    severity: 'ticket',
    runbook: 'bulk-jobs.md',
    limit: 0,
    read: ({ counts: { bulksHanging: value } }) => [
      { value, message: `Bulk jobs without a workflow that makes progress: ${value}.` },
    ],
  },
  {
    alert: 'OutcomeUnknown',
    severity: 'ticket',
    runbook: 'provider-down.md',
    limit: 0,
    read: ({ unknownLastHour: value }) => [
      { value, message: `Jobs that ended without an outcome in the last hour: ${value}.` },
    ],
  },
  {
    alert: 'NobodyPolls',
    severity: 'page',
    runbook: otherAlerts,
    limit: 0,
    read: ({ queues }) =>
      (queues ?? []).map(({ name, task, pollers }) => ({
        value: pollers === 0 ? 1 : 0,
        message: `No worker polls ${name} (${task}).`,
      })),
  },
  {
    alert: 'Backlog',
    severity: 'ticket',
    runbook: otherAlerts,
    limit: 60,
    read: ({ queues }) =>
      (queues ?? []).map(({ name, task, backlogAgeSeconds: value }) => ({
        value,
        message: `The oldest task of ${name} (${task}) has waited for ${formatSeconds(value)}.`,
      })),
  },
  {
    alert: 'ProviderPaused',
    severity: 'ticket',
    runbook: 'provider-down.md',
    limit: 0,
    read: ({ counts: { providersPaused: value } }) => [
      { value, message: `Paused providers, whose jobs wait: ${value}.` },
    ],
  },
  {
    alert: 'CallerWebhookLate',
    severity: 'ticket',
    runbook: otherAlerts,
    limit: 3600,
    read: ({ counts: { callerWebhookAgeSeconds: value } }) => [
      { value, message: `A webhook has not been delivered for ${formatSeconds(value)}.` },
    ],
  },
  {
    alert: 'CallerWebhooksFail',
    severity: 'ticket',
    runbook: otherAlerts,
    limit: 0.5,
    read: ({ webhooks: { recentAttempts, recentFailed } }) => [
      {
        value: recentFailed >= failedAttemptsMin ? recentFailed / recentAttempts : 0,
        message: `${recentFailed} of ${recentAttempts} attempts to deliver webhooks failed in the last 30 minutes.`,
      },
    ],
  },
];

/** Lists the conditions that are true, those for a page first. */
export function findAttention(state: AttentionState) {
  return conditions
    .flatMap(({ alert, severity, runbook, limit, read }) =>
      read(state)
        .filter(({ value }) => value > limit)
        .map(({ message }) => ({ alert, severity, runbook, message })),
    )
    .toSorted((one, other) => one.severity.localeCompare(other.severity));
}
