/** Environment variables, in the sections of docs/configuration.md: type, limits and default. */
import { z } from 'zod';
import { readPayloadKeys } from './payload-codec.ts';

const flag = z.enum(['true', 'false']).transform((value) => value === 'true');

/** TCP port; 0: any free port. */
const port = z.coerce.number().int().min(0).max(65_535);

/** Makes the schema of an integer from `min` to `max`. */
export const count = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

const origin = z.url().transform((value) => new URL(value).origin);
const listed = (value: string): string[] => value.split(',').filter(Boolean);

/** Origins (scheme, host and port) separated by commas; absent: none. */
const originList = z.string().default('').transform(listed).pipe(z.array(origin));

/** Origins separated by commas, or `*` for all; absent: all. */
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

/** Settings of the encryption of payloads in Temporal. */
export const payloadVariables = {
  /** Maximum number of simultaneous job starts per process; further starts wait. */
  TEMPORAL_STARTS_MAX: count(1, 10_000).default(16),
  /** Maximum wait of a job for its start; then its request is rejected and no job exists. */
  TEMPORAL_START_WAIT_MS: count(0, 600_000).default(20_000),
  /** Keys of Temporal payloads, `id:key,…`, newest first (docs/payload-encryption.md). */
  PAYLOAD_KEYS: payloadKeys,
  /** False: the keys only decrypt existing payloads. */
  PAYLOAD_ENCRYPTION: flag.optional(),
};

/** Settings of tools that use only Temporal. */
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

/** Placeholders of example files and templates; a process does not start with them as secrets. */
const sampleWords =
  /change.?me|secret|password|example|sample|placeholder|your[-_ ]|openssl|[<>${}\s]/i;
const secret = z
  .string()
  .trim()
  .min(32, 'must have at least 32 characters')
  .refine((value) => !sampleWords.test(value), 'must not be a sample value')
  .refine((value) => new Set(value).size >= 10, 'must be random');

/** Secrets. Each has one purpose, so that a leaked secret does not expose the others. */
export const ownSecrets = [
  'STORAGE_SECRET',
  'KEY_PEPPER',
  'WEBHOOK_SECRET',
  'WEBHOOK_SIGNING_SECRET',
  'ADMIN_API_KEY',
  'KEY_PEPPER_PREVIOUS',
  'WEBHOOK_SECRET_PREVIOUS',
] as const;

/** Variables that STORAGE_DRIVER=s3 requires. */
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

/** `name=value,name=value`, percent-encoded (OpenTelemetry's specification of its variables). */
const pairList = z
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

/** The gateway's own variables; those of a provider are in its folder (providers/). */
export const gatewayVariables = {
  // API: address, limits and wait times.
  NODE_ENV: z.string().default('development'),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent']).default('info'),
  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: port.default(4000),
  PUBLIC_BASE_URL: z.url().optional(),
  /** Origins whose pages may use the API. */
  CORS_ORIGINS: openOriginList,
  /** Time for which a stopping process serves requests while /readyz reports not ready. */
  DRAIN_DELAY_MS: count(0, 60_000).default(0),
  RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(60),
  POLL_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  CONSOLE_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  SYNC_WAIT_MS: count(0, 600_000).default(60_000),
  /** Maximum wait for a job; OpenAI's clients time out after 600 s and would start a second job. */
  COMPATIBLE_WAIT_MS: count(0, 600_000).default(590_000),
  COMPATIBLE_KEEPALIVE_MS: count(50, 60_000).default(15_000),
  /** Maximum wait for the admission of a started job; then the response is 503 with the job id. */
  VERDICT_WAIT_MS: count(1000, 600_000).default(60_000),
  SYNC_WAITERS_MAX: count(1, 100_000).default(2000),
  /**
   * Maximum bytes of bodies and files of unfinished requests, per process. An organization may hold
   * half of them, so half must be enough for the largest request.
   */
  BODY_BYTES_MAX: count(41_943_040, 68_719_476_736).default(134_217_728),
  SPOOL_BYTES_MAX: count(629_145_600, 1_099_511_627_776).default(1_073_741_824),

  // Postgres and Temporal: addresses, credentials and retention.
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  DATABASE_POOL_MAX: count(2, 200).default(12),
  ...temporalVariables,
  /** Origins of web UIs that may call the codec endpoint. */
  TEMPORAL_UI_ORIGINS: originList,
  /** Prefix of the names of all task queues, so that several stacks can share one namespace. */
  TASK_QUEUE_PREFIX: z
    .string()
    .regex(/^[a-z0-9-]*$/)
    .default(''),
  /** Name of the worker deployment (docs/deploys.md); absent: unversioned. */
  WORKER_DEPLOYMENT_NAME: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,100}$/, 'must be letters, digits, - and _')
    .optional(),
  /** Build id of this process's workers. */
  WORKER_BUILD_ID: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be letters, digits, ., - and _')
    .optional(),
  /** Behavior of running jobs when another version becomes current: move to it, or stay. */
  WORKER_VERSIONING: z.enum(['AUTO_UPGRADE', 'PINNED']).default('AUTO_UPGRADE'),

  // The gateway's own secrets; the keys of providers and of the storage are in other sections.
  STORAGE_SECRET: secret,
  KEY_PEPPER: secret,
  /**
   * Previous pepper: API keys whose HMAC was made with it are accepted; at their next use, the HMAC
   * is made anew with KEY_PEPPER.
   */
  KEY_PEPPER_PREVIOUS: secret.optional(),
  WEBHOOK_SECRET: secret,
  /** Previous secret: provider notifications to URLs that were signed with it are accepted. */
  WEBHOOK_SECRET_PREVIOUS: secret.optional(),
  /** Secret from which callers' webhook secrets are derived. */
  WEBHOOK_SIGNING_SECRET: secret,
  ADMIN_API_KEY: secret,

  // Storage of media, and the validity of signed URLs.
  /** `local`: files below STORAGE_DIR, served by the API; `s3`: any S3-compatible store. */
  STORAGE_DRIVER: z.enum(['local', 's3']).default('local'),
  /** Directory of the local driver; both drivers use it for temporary files. */
  STORAGE_DIR: z.string().min(1).default('.data/storage'),
  S3_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  S3_REGION: z.string().min(1).optional(),
  S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
    .optional(),
  S3_ACCESS_KEY_ID: z.string().min(1).optional(),
  S3_SECRET_ACCESS_KEY: z.string().min(1).optional(),
  /** Endpoint in the URLs for callers and providers, if it differs from S3_ENDPOINT. */
  S3_PUBLIC_BASE_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Validity of a signed upload URL: at most ten minutes. */
  UPLOAD_URL_TTL_MS: count(1000, 600_000).default(600_000),
  /** Validity of the public URL of an upload: at most seven days (the limit of S3 signatures). */
  UPLOAD_READ_TTL_MS: count(60_000, 604_800_000).default(604_800_000),
  /** Maximum bytes of the uploads of an organization, with those that open upload URLs permit. */
  UPLOAD_BYTES_MAX: count(1, 1_000_000_000_000_000).default(50 * 1024 ** 3),
  /** Retention of an upload after the last request that named it; longer than any job runs. */
  UPLOAD_KEPT_MS: count(86_400_000 * 2, 86_400_000 * 3650).default(86_400_000 * 30),

  // Studio providers: time limits. The variables of each provider are in providers/.
  /** Origins that the outbound guard admits even if their address is private (sandbox, tests). */
  ALLOW_PRIVATE_NETWORK_ORIGINS: originList,
  /**
   * Upper bound of the wait before the first status check of a call without a notification. The
   * wait is three times the typical duration of the model. Use a short time if provider
   * notifications cannot reach this gateway.
   */
  FIRST_CHECK_MAX_MS: count(50, 3_600_000).default(3_600_000),
  /** Time limit of a job, by medium. */
  IMAGE_DEADLINE_MS: count(1000, 86_400_000).default(600_000),
  VIDEO_DEADLINE_MS: count(1000, 86_400_000).default(3_600_000),
  AUDIO_DEADLINE_MS: count(1000, 86_400_000).default(900_000),
  /** Time for which a job waits for the outcome of a call whose outcome is unknown. */
  OUTCOME_WAIT_MS: count(1000, 86_400_000).default(300_000),

  // Chat: models, prices, sandbox and time limits.
  /** Path of a JSON file with the operator's own chat models and removed ids (docs/catalog.md). */
  CHAT_MODELS_FILE: z.string().min(1).optional(),
  /** Markup on the catalog's chat prices: 0.2 is 20 %. */
  CHAT_PRICE_MARKUP: z.coerce.number().min(0).max(10).default(0),
  /** URL of the sandbox that serves the chat models of providers without a key. */
  SANDBOX_CHAT_OPENAI_URL: z.url().optional(),
  SANDBOX_CHAT_ANTHROPIC_URL: z.url().optional(),
  SANDBOX_CHAT_KEY: z.string().min(8).optional(),
  /** Time limit of the first byte of a provider's response; without streaming, of all bytes. */
  CHAT_ANSWER_TIMEOUT_MS: count(1000, 3_600_000).default(600_000),
  /** Maximum time without data in a provider's stream. */
  CHAT_SILENCE_TIMEOUT_MS: count(1000, 3_600_000).default(120_000),
  /** Time after which a caller who does not read the stream is disconnected. */
  CHAT_STALL_TIMEOUT_MS: count(100, 600_000).default(30_000),
  /** Interval of comments in a silent stream, against idle timeouts of proxies (design §6). */
  CHAT_KEEPALIVE_MS: count(50, 15_000).default(10_000),
  /** Interval of chat checkpoints; the sweeper settles a chat whose checkpoint is overdue. */
  CHAT_CHECKPOINT_MS: count(50, 600_000).default(5000),
  CHAT_RESERVATION_TTL_MS: count(200, 86_400_000).default(60_000),
  /** Output tokens that are reserved for an answer; further tokens are charged too. */
  CHAT_EXPECTED_ANSWER_TOKENS: count(1, 1_000_000).default(4096),
  /** Maximum number of connections per chat provider. */
  CHAT_CONNECTIONS_MAX: count(1, 65_000).default(1024),

  // Credits: exchange rate, allowance of an organization, intervals of sweeper and audit.
  USD_PER_CREDIT: z.coerce.number().positive().default(0.01),
  /** Studio credits that an organization may use in six hours; absent: no limit. */
  WINDOW_ALLOWANCE_CREDITS: z.coerce.number().positive().optional(),
  /** Interval at which the sweeper checks the workflows of open reservations. */
  RESERVATION_TTL_MS: count(1000, 86_400_000).default(120_000),
  SWEEP_INTERVAL_MS: count(100, 3_600_000).default(10_000),
  /** Interval at which a worker audits the ledger and the results; 0: never. */
  AUDIT_INTERVAL_MS: count(0, 86_400_000).default(600_000),

  // Caller webhooks: time limit and retry delays.
  /** Time limit of one attempt to deliver a webhook. */
  WEBHOOK_TIMEOUT_MS: count(100, 60_000).default(15_000),
  /** Delays between the attempts to deliver a webhook; their sum is 51.7 hours. */
  WEBHOOK_RETRY_DELAYS_MS: delayList.default(
    [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400].map((s) => s * 1000),
  ),

  // Telemetry of a process (docs/telemetry.md).
  /** Port of /metrics, /healthz and /readyz of this process; absent: none, 0: any free port. */
  METRICS_PORT: port.optional(),
  METRICS_HOST: z.string().min(1).default('127.0.0.1'),
  /** OTLP/HTTP collector; absent: no traces. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: z.enum(['http/protobuf', 'http/json']).default('http/protobuf'),
  OTEL_EXPORTER_OTLP_HEADERS: pairList,
  /** Service name in traces; the kind of process is appended: `-api`, `-worker`. */
  OTEL_SERVICE_NAME: z.string().min(1).default('studio-gateway'),
  /** Further attributes of all spans, e.g. `deployment.environment.name=production`. */
  OTEL_RESOURCE_ATTRIBUTES: pairList,
  /** Share of traces that are exported, 0 to 1. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  /** Milliseconds between exports. */
  OTEL_BSP_SCHEDULE_DELAY: count(50, 600_000).default(5000),
};
