/**
 * Defines the metrics of a process: their names, labels and buckets. Label values come from closed
 * lists (routes, providers, workflow types, error codes). The only ids among them are those of the
 * ten organizations with the highest spending. Amounts are in credits, times in seconds.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Histogram buckets in seconds, from a database statement to a slow provider's response. */
const requestSeconds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Histogram buckets of a job in seconds, from a short image job to a long video job. */
const jobSeconds = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600];
const waitSeconds = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5];
const batchSizes = [1, 2, 4, 8, 16, 32, 64, 128, 200];

function counter<Label extends string>(
  registry: Registry,
  name: string,
  [help, ...labelNames]: [string, ...Label[]],
): Counter<Label> {
  return new Counter({ name: `gateway_${name}`, help, labelNames, registers: [registry] });
}

function gauge<Label extends string>(
  registry: Registry,
  name: string,
  [help, ...labelNames]: [string, ...Label[]],
): Gauge<Label> {
  return new Gauge({ name: `gateway_${name}`, help, labelNames, registers: [registry] });
}

/** Returns a function that creates histograms with the given buckets. */
function histograms(registry: Registry, buckets: number[]) {
  return <Label extends string>(
    name: string,
    [help, ...labelNames]: [string, ...Label[]],
  ): Histogram<Label> =>
    new Histogram({ name: `gateway_${name}`, help, labelNames, buckets, registers: [registry] });
}

/** Metrics of the API. */
function requestMetrics(registry: Registry) {
  const createTimeHistogram = histograms(registry, requestSeconds);
  return {
    requests: counter(registry, 'http_requests_total', [
      'Answered requests, by route pattern and status.',
      'method',
      'route',
      'status',
    ]),
    requestSeconds: createTimeHistogram('http_request_duration_seconds', [
      'Time from a request to the end of its response. Includes the time that a synchronous Studio request waits for its job.',
      'method',
      'route',
    ]),
    requestsInFlight: gauge(registry, 'http_requests_in_flight', [
      'Requests whose response is not complete yet.',
    ]),
    firstTokenSeconds: createTimeHistogram('chat_first_token_seconds', [
      'Time from a streamed chat request to its first token, by provider.',
      'provider',
    ]),
    chatUsageCapped: counter(registry, 'chat_usage_capped_total', [
      'Chats whose provider reported more tokens than the request allows.',
      'provider',
    ]),
    notifications: counter(registry, 'provider_notifications_total', [
      'Provider notifications by outcome: new, repeated, late (the job had ended), rejected (invalid signature).',
      'provider',
      'outcome',
    ]),
    notificationSeconds: createTimeHistogram('provider_notification_delivery_seconds', [
      'Time from a provider notification to the signal to its workflow.',
      'provider',
    ]),
  };
}

/** Metrics of credits and jobs. */
function ledgerMetrics(registry: Registry) {
  return {
    creditsReserved: counter(registry, 'credits_reserved_total', ['Credits reserved.', 'kind']),
    creditsCharged: counter(registry, 'credits_charged_total', [
      'Credits charged, by model and serving provider.',
      'kind',
      'provider',
      'model',
    ]),
    creditsReleased: counter(registry, 'credits_released_total', [
      'Reserved credits that were released.',
      'kind',
    ]),
    reservationsRejected: counter(registry, 'reservations_rejected_total', [
      'Reservations that the ledger rejected.',
      'kind',
      'verdict',
    ]),
    jobsEnded: counter(registry, 'jobs_ended_total', [
      'Ended Studio jobs by workflow type, status and error code.',
      'type',
      'status',
      'reason',
    ]),
    jobSeconds: histograms(registry, jobSeconds)('job_duration_seconds', [
      'Time from the reservation to the settlement of a Studio job.',
      'type',
      'status',
    ]),
    jobOverheadSeconds: histograms(registry, requestSeconds)('job_overhead_seconds', [
      'Time that a completed job spent in the gateway before its first provider call and after the provider’s last response.',
      'type',
    ]),
    callerWebhookAttempts: counter(registry, 'caller_webhook_attempts_total', [
      'Attempts to deliver caller webhooks.',
      'outcome',
    ]),
    callerWebhookSeconds: histograms(registry, requestSeconds)(
      'caller_webhook_attempt_duration_seconds',
      ['Duration of an attempt to deliver a caller webhook.'],
    ),
    storageWrites: counter(registry, 'storage_writes_total', [
      'Objects written to the storage, by outcome: ok or failed.',
      'outcome',
    ]),
    certificateDays: gauge(registry, 'certificate_days_left', [
      'Days until a client certificate of this process ends, by the variable that names its file.',
      'file',
    ]),
    batchSize: histograms(registry, batchSizes)('batch_size', [
      'Items of a batch, which share one round trip and one commit.',
      'batch',
    ]),
    poolConnections: gauge(registry, 'postgres_pool_connections', [
      'Database connections of this process, by state.',
      'state',
    ]),
    poolWaiting: gauge(registry, 'postgres_pool_waiting', [
      'Queries of this process that are waiting for a database connection.',
    ]),
    poolWaitSeconds: histograms(registry, waitSeconds)('postgres_pool_wait_seconds', [
      'Time that a query waits for a database connection.',
    ]),
  };
}

/** Histogram buckets that OpenTelemetry's conventions for generative AI specify. */
const genAiTokens = Array.from({ length: 14 }, (_, power) => 4 ** power);
const genAiSeconds = Array.from({ length: 14 }, (_, power) => 0.01 * 2 ** power);

/**
 * Creates the metrics `gen_ai.client.token.usage` and `gen_ai.client.operation.duration` of
 * OpenTelemetry's conventions for generative AI. The names are translated to Prometheus's format.
 */
function genAiMetrics(registry: Registry) {
  const labels = ['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model'] as const;
  return {
    genAiTokens: new Histogram({
      name: 'gen_ai_client_token_usage',
      help: 'Tokens that a chat was charged for, by type.',
      labelNames: [...labels, 'gen_ai_token_type'],
      buckets: genAiTokens,
      registers: [registry],
    }),
    genAiSeconds: new Histogram({
      name: 'gen_ai_client_operation_duration_seconds',
      help: 'Duration of a chat (from its first request to a provider until its settlement) or of a Studio job (from its reservation until its settlement).',
      labelNames: [...labels, 'error_type'],
      buckets: genAiSeconds,
      registers: [registry],
    }),
    chatUnknownCostCalls: counter(registry, 'chat_unknown_cost_calls_total', [
      'Calls that were not charged to a caller and that the provider may bill, such as late and cut answers.',
      'provider',
    ]),
    chatUnknownCostUsd: counter(registry, 'chat_unknown_cost_usd_total', [
      'Estimated cost of the calls with unknown cost in USD: their input and the output that arrived, before the markup.',
      'provider',
    ]),
    chatCostUsd: counter(registry, 'chat_cost_usd_total', [
      'Price of the charged tokens before the markup, in USD.',
      'provider',
      'model',
    ]),
  };
}

/** Metrics of calls to providers. */
function providerMetrics(registry: Registry) {
  return {
    providerRequests: counter(registry, 'provider_requests_total', [
      'Requests to providers by outcome: ok, pending, or the kind of failure.',
      'provider',
      'verb',
      'outcome',
    ]),
    providerSeconds: histograms(registry, requestSeconds)('provider_request_duration_seconds', [
      'Duration of a request to a provider.',
      'provider',
      'verb',
    ]),
    providerResults: counter(registry, 'provider_results_total', [
      'Results of queued calls, by the trigger of the status check: notification, or timer (if the notification was lost or late).',
      'provider',
      'woken_by',
    ]),
  };
}

/**
 * Creates the gauges whose values a worker reads from Postgres and Temporal. Every worker reports
 * the same values, so they must be aggregated with max, not with sum.
 */
export function createStateGauges({ registry }: Metrics) {
  return {
    reservationsOpen: gauge(registry, 'reservations_open', ['Open reservations.', 'kind']),
    reservationsOpenCredits: gauge(registry, 'reservations_open_credits', [
      'Credits of open reservations.',
      'kind',
    ]),
    reservationAgeSeconds: gauge(registry, 'reservation_oldest_age_seconds', [
      'Age of the oldest open reservation.',
      'kind',
    ]),
    organizationSpend: gauge(registry, 'organization_spend_credits', [
      'Credits reserved and charged since midnight UTC, for the ten organizations with the highest spending.',
      'organization',
    ]),
    bulksOpen: gauge(registry, 'bulk_jobs_open', ['Bulk jobs that have not ended.']),
    bulksPaused: gauge(registry, 'bulk_jobs_paused', ['Bulk jobs that are paused.']),
    bulksHanging: gauge(registry, 'bulk_jobs_hanging', [
      'Open bulk jobs whose workflow is missing or was not signaled.',
    ]),
    providersPaused: gauge(registry, 'providers_paused', ['Providers that are paused.']),
    jobsOverdue: gauge(registry, 'jobs_overdue', ['Unsettled jobs whose deadline has passed.']),
    reservationOverdueSeconds: gauge(registry, 'reservation_overdue_seconds', [
      'Time since an open Studio reservation should have ended: the deadline of its job, and OUTCOME_WAIT_MS. 0 if there is none.',
    ]),
    jobsVerifying: gauge(registry, 'jobs_verifying', [
      'Jobs with a call whose outcome at the provider is unknown.',
    ]),
    jobsAwaiting: gauge(registry, 'jobs_awaiting', ['Jobs that wait for a decision.']),
    jobsAwaitingCredits: gauge(registry, 'jobs_awaiting_credits', ['Credits that they hold.']),
    callerWebhooksOpen: gauge(registry, 'caller_webhooks_open', [
      'Undelivered caller webhooks that are still being retried.',
    ]),
    callerWebhookAgeSeconds: gauge(registry, 'caller_webhook_oldest_age_seconds', [
      'Age of the oldest caller webhook that is still being retried, measured from the end of its job.',
    ]),
    auditRows: gauge(registry, 'ledger_audit_rows', [
      'Violated invariants of the ledger at the last audit of the scope; 0 if there are none.',
      'scope',
    ]),
    auditedAt: gauge(registry, 'ledger_audit_success_timestamp_seconds', [
      'Time of the last audit of the scope (Unix time).',
      'scope',
    ]),
    sweeperActions: counter(registry, 'sweeper_actions_total', [
      'Number of actions of the sweeper, by kind of action.',
      'action',
    ]),
    sweptAt: gauge(registry, 'sweeper_success_timestamp_seconds', [
      'End of the last successful pass of the sweeper (Unix time).',
    ]),
    taskQueueBacklog: gauge(registry, 'task_queue_backlog', [
      'Tasks waiting for a worker, by queue and kind of task.',
      'queue',
      'task',
    ]),
    taskQueueAgeSeconds: gauge(registry, 'task_queue_backlog_age_seconds', [
      'Age of the oldest task waiting for a worker, by queue and kind of task.',
      'queue',
      'task',
    ]),
    taskQueuePollers: gauge(registry, 'task_queue_pollers', [
      'Workers that have polled within the last two minutes, by queue and kind of task.',
      'queue',
      'task',
    ]),
  };
}

export type StateGauges = ReturnType<typeof createStateGauges>;

/** Metrics of every process. */
export function createMetrics() {
  const registry = new Registry();
  const collectors: (() => unknown)[] = [];
  return {
    registry,
    /** Registers a function that updates metrics before each scrape. It must not reject. */
    onScrape: (collect: () => unknown) => void collectors.push(collect),
    /** Returns all metrics in Prometheus's text format. */
    async page(): Promise<string> {
      await Promise.all(collectors.map((collect) => collect()));
      return registry.metrics();
    },
    ...requestMetrics(registry),
    ...ledgerMetrics(registry),
    ...providerMetrics(registry),
    ...genAiMetrics(registry),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;
