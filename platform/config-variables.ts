/** The variables of the environment, section by section as in docs/configuration.md: kind, bounds and default. */
import { z } from 'zod';
import { readPayloadKeys } from './payload-codec.ts';

// `true` or `false`.
const flag = z.enum(['true', 'false']).transform((value) => value === 'true');

/** A TCP port; 0 = any free one. */
const port = z.coerce.number().int().min(0).max(65_535);

/** A whole number within both bounds. */
export const count = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

const origin = z.url().transform((value) => new URL(value).origin);
const listed = (value: string): string[] => value.split(',').filter(Boolean);

/** Origins (scheme, host and port) with commas between; absent = none. */
const originList = z.string().default('').transform(listed).pipe(z.array(origin));

/** The same, or `*` for all; absent = all. */
const openOriginList = z
  .string()
  .default('*')
  .transform(listed)
  .pipe(z.array(z.union([z.literal('*'), origin])));

const payloadKeys = z
  .string()
  .optional()
  .transform((text, context) => {
    try {
      return text === undefined ? [] : readPayloadKeys(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : '' });
      return z.NEVER;
    }
  });

/** What seals the payloads that Temporal keeps. */
export const payloadVariables = {
  /** Jobs that a process starts at the same time; the others wait their turn. */
  TEMPORAL_STARTS_MAX: count(1, 10_000).default(16),
  /** How long a job waits for its turn; after that its request is refused, and nothing was started. */
  TEMPORAL_START_WAIT_MS: count(0, 600_000).default(20_000),
  /** `id:key,…`: keys that seal what Temporal keeps, newest first (docs/payload-encryption.md). */
  PAYLOAD_KEYS: payloadKeys,
  /** False: the keys only open what was sealed before. */
  PAYLOAD_ENCRYPTION: flag.optional(),
};

/** What a tool needs that only speaks to Temporal. */
export const temporalVariables = {
  TEMPORAL_ADDRESS: z.string().regex(/^[^\s/]+:\d+$/, 'must be host:port'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_TLS: flag.default(false),
  TEMPORAL_TLS_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_KEY_PATH: z.string().optional(),
  TEMPORAL_TLS_CA_PATH: z.string().optional(),
  TEMPORAL_API_KEY: z.string().optional(),
  ...payloadVariables,
};

/** Words of example files and of templates nobody filled in: a process refuses to run with them. */
const sampleWords =
  /change.?me|secret|password|example|sample|placeholder|your[-_ ]|openssl|[<>${}\s]/i;
const secret = z
  .string()
  .trim()
  .min(32, 'must have at least 32 characters')
  .refine((value) => !sampleWords.test(value), 'must not be a sample value')
  .refine((value) => new Set(value).size >= 10, 'must be random');

/** Each purpose has a secret of its own: what leaks of one opens nothing else. */
export const ownSecrets = [
  'STORAGE_SECRET',
  'KEY_PEPPER',
  'WEBHOOK_SECRET',
  'WEBHOOK_SIGNING_SECRET',
  'ADMIN_API_KEY',
  'KEY_PEPPER_PREVIOUS',
] as const;

/** What STORAGE_DRIVER=s3 cannot do without. */
export const s3Variables = [
  'S3_ENDPOINT',
  'S3_REGION',
  'S3_BUCKET',
  'S3_ACCESS_KEY_ID',
  'S3_SECRET_ACCESS_KEY',
] as const;

const delayList = z
  .string()
  .transform((value) => value.split(',').map(Number))
  .refine(
    (list) => list.length <= 50 && list.every((ms) => ms >= 0 && ms <= 86_400_000),
    'must be at most 50 waits of at most a day each, with commas between',
  );

/** `name=value,name=value`, percent-encoded (OpenTelemetry's specification of OTLP headers). */
const headerList = z
  .string()
  .default('')
  .refine(
    (text) => text === '' || /^[^=,\s]+=[^,]*(,[^=,\s]+=[^,]*)*$/.test(text),
    'must be name=value,…',
  )
  .transform((text): Record<string, string> =>
    Object.fromEntries(
      text
        .split(',')
        .filter(Boolean)
        .map((pair) => {
          const at = pair.indexOf('=');
          return [pair.slice(0, at), decodeURIComponent(pair.slice(at + 1))];
        }),
    ),
  );

/** The gateway's own variables; those of a provider stand in its folder (providers/). */
export const gatewayVariables = {
  // The API: where it listens, how much it takes, how long it waits.
  NODE_ENV: z.string().default('development'),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent']).default('info'),
  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: port.default(4000),
  PUBLIC_BASE_URL: z.url().optional(),
  /** Origins whose pages may use the API. */
  CORS_ORIGINS: openOriginList,
  /** How long a process that was asked to end still serves while it says that it is not ready. */
  DRAIN_DELAY_MS: count(0, 60_000).default(0),
  RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(60),
  POLL_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  CONSOLE_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  SYNC_WAIT_MS: count(0, 600_000).default(60_000),
  /** How long a started job may be undecided, because no worker takes it: then 503, with its id. */
  VERDICT_WAIT_MS: count(1000, 600_000).default(60_000),
  SYNC_WAITERS_MAX: count(1, 100_000).default(2000),
  /** Bytes of bodies and files of unfinished requests, in this process and of one organization; the largest request must fit. */
  BODY_BYTES_MAX: count(20_971_520, 68_719_476_736).default(134_217_728),
  BODY_BYTES_PER_ORGANIZATION_MAX: count(20_971_520, 68_719_476_736).default(50_331_648),
  SPOOL_BYTES_MAX: count(314_572_800, 1_099_511_627_776).default(1_073_741_824),
  SPOOL_BYTES_PER_ORGANIZATION_MAX: count(314_572_800, 1_099_511_627_776).default(314_572_800),

  // Postgres and Temporal: where they are, how they are reached, what is kept there.
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  DATABASE_POOL_MAX: count(2, 200).default(12),
  ...temporalVariables,
  /** Origins of web UIs that may ask the codec endpoint. */
  TEMPORAL_UI_ORIGINS: originList,
  /** Starts the names of all task queues: several stacks can share one namespace. */
  TASK_QUEUE_PREFIX: z
    .string()
    .regex(/^[a-z0-9-]*$/)
    .default(''),
  /** Names the deployment that workers are versions of (docs/deploys.md); absent: unversioned. */
  WORKER_DEPLOYMENT_NAME: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,100}$/, 'must be letters, digits, - and _')
    .optional(),
  /** The version of this process's workers. */
  WORKER_BUILD_ID: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be letters, digits, ., - and _')
    .optional(),
  /** What running jobs do when another version becomes current: move to it, or end where they began. */
  WORKER_VERSIONING: z.enum(['AUTO_UPGRADE', 'PINNED']).default('AUTO_UPGRADE'),

  // The gateway's own secrets. Keys of others (providers, stores) are with what they open.
  STORAGE_SECRET: secret,
  KEY_PEPPER: secret,
  /** Keys that are known under it are accepted too, and known under KEY_PEPPER from then on. */
  KEY_PEPPER_PREVIOUS: secret.optional(),
  WEBHOOK_SECRET: secret,
  /** Callers' webhook secrets are derived from it. */
  WEBHOOK_SIGNING_SECRET: secret,
  ADMIN_API_KEY: secret,

  // Where media is kept, and how long signed URLs of it work.
  /** `local`: files below STORAGE_DIR, served by the API; `s3`: any S3-compatible store. */
  STORAGE_DRIVER: z.enum(['local', 's3']).default('local'),
  /** Objects of the local driver; with both drivers, files on their way into the storage. */
  STORAGE_DIR: z.string().min(1).default('.data/storage'),
  S3_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  S3_REGION: z.string().min(1).optional(),
  S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
    .optional(),
  S3_ACCESS_KEY_ID: z.string().min(1).optional(),
  S3_SECRET_ACCESS_KEY: z.string().min(1).optional(),
  /** The endpoint as callers and providers reach it, when that is not S3_ENDPOINT. */
  S3_PUBLIC_BASE_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** How long a signed upload URL takes its file: ten minutes at most. */
  UPLOAD_URL_TTL_MS: count(1000, 600_000).default(600_000),
  /** How long the public URL of an upload reads: seven days at most (the most S3 signs for). */
  UPLOAD_READ_TTL_MS: count(60_000, 604_800_000).default(604_800_000),
  /** Bytes of its own files that an organization may keep; what its open upload URLs admit counts. */
  UPLOAD_BYTES_MAX: count(1, 1_000_000_000_000_000).default(50 * 1024 ** 3),
  /** How long a file is kept that no request names: longer than any job may need it. */
  UPLOAD_KEPT_MS: count(86_400_000 * 2, 86_400_000 * 3650).default(86_400_000 * 30),

  // Providers of Studio: how long they are waited for. What each needs itself is in providers/.
  /** Origins that the outbound guard admits although their address is private (sandbox, tests). */
  ALLOW_PRIVATE_NETWORK_ORIGINS: originList,
  /**
   * The longest wait before a provider that has not notified is first asked; by default three times as
   * long as the model takes as a rule. Short where notifications cannot reach this gateway.
   */
  FIRST_CHECK_MAX_MS: count(50, 3_600_000).default(3_600_000),
  /** How long work may take before the job is given up, by medium. */
  IMAGE_DEADLINE_MS: count(1000, 86_400_000).default(600_000),
  VIDEO_DEADLINE_MS: count(1000, 86_400_000).default(3_600_000),
  AUDIO_DEADLINE_MS: count(1000, 86_400_000).default(900_000),
  /** How long to wait for a provider's word once an outcome is unknown. */
  OUTCOME_WAIT_MS: count(1000, 86_400_000).default(300_000),

  // Chat: models, prices, the sandbox that stands in, and how long each side may be silent.
  /** JSON: chat models of the operator's own, and ids taken out (docs/catalog.md). */
  CHAT_MODELS_FILE: z.string().min(1).optional(),
  /** Added to the catalog's chat prices: 0.2 is 20 % on top. */
  CHAT_PRICE_MARKUP: z.coerce.number().min(0).max(10).default(0),
  /** Serves the chat models of providers that have no key (chat-upstreams.ts). */
  SANDBOX_CHAT_OPENAI_URL: z.url().optional(),
  SANDBOX_CHAT_ANTHROPIC_URL: z.url().optional(),
  SANDBOX_CHAT_KEY: z.string().min(8).optional(),
  /** How long an upstream may take to begin its answer (a whole one when it is not streamed). */
  CHAT_ANSWER_TIMEOUT_MS: count(1000, 3_600_000).default(600_000),
  /** How long a stream may be silent. */
  CHAT_SILENCE_TIMEOUT_MS: count(1000, 3_600_000).default(120_000),
  /** A caller who takes nothing of a stream for this long is dropped. */
  CHAT_STALL_TIMEOUT_MS: count(100, 600_000).default(30_000),
  /** Proxies cut silent connections, many after 30 s; design §6 promises 15 s at most. */
  CHAT_KEEPALIVE_MS: count(50, 15_000).default(10_000),
  /** Time between checkpoints of a running chat, and time after which the sweeper settles a chat without one. */
  CHAT_CHECKPOINT_MS: count(50, 600_000).default(5000),
  CHAT_RESERVATION_TTL_MS: count(200, 86_400_000).default(60_000),
  /** Output tokens that are reserved for an answer; a longer one is charged beyond its reservation. */
  CHAT_EXPECTED_ANSWER_TOKENS: count(1, 1_000_000).default(4096),
  /** Connections to one provider. */
  CHAT_CONNECTIONS_MAX: count(1, 65_000).default(1024),

  // Money: what a credit is worth, what an organization may use, how often promises are looked after.
  USD_PER_CREDIT: z.coerce.number().positive().default(0.01),
  /** Studio credits an organization may use in six hours; absent = no limit. */
  WINDOW_ALLOWANCE_CREDITS: z.coerce.number().positive().optional(),
  /** How often the sweeper asks whether an open reservation still has a running workflow. */
  RESERVATION_TTL_MS: count(1000, 86_400_000).default(120_000),
  SWEEP_INTERVAL_MS: count(100, 3_600_000).default(10_000),
  /** How often a worker checks every promise about money and results; 0 = never. */
  AUDIT_INTERVAL_MS: count(0, 86_400_000).default(600_000),

  // Webhooks of callers: how long a receiver may take, and when it is tried again.
  /** How long a caller's receiver may take for a webhook. */
  WEBHOOK_TIMEOUT_MS: count(100, 60_000).default(15_000),
  /** Waits between the attempts at a webhook: together 51.7 hours. */
  WEBHOOK_RETRY_DELAYS_MS: delayList.default(
    [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400].map((s) => s * 1000),
  ),

  // What a process tells of itself, and whom (docs/telemetry.md).
  /** Serves /metrics, /healthz and /readyz of this process; absent = not served. 0 = any port. */
  METRICS_PORT: port.optional(),
  METRICS_HOST: z.string().min(1).default('127.0.0.1'),
  /** An OTLP/HTTP collector; absent = nothing is traced. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_HEADERS: headerList,
  OTEL_SERVICE_NAME: z.string().min(1).default('studio-gateway'),
  /** Share of traces that are kept, 0 to 1. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  /** Milliseconds between exports. */
  OTEL_BSP_SCHEDULE_DELAY: count(50, 600_000).default(5000),
};
