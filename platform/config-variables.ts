/** Environment variables with types, limits and defaults, in the order of docs/configuration.md. */
import { z } from 'zod';
import {
  ConfigError,
  headerSecret,
  count,
  flag,
  matching,
  webUrl,
  databaseUrl,
  decimal,
  delayList,
  oneOf,
  openOriginList,
  originList,
  pairList,
  port,
  providerKey,
  proxyUrl,
  secret,
} from './variable-types.ts';
import { readPayloadKeys } from './payload-codec.ts';

/** Chat provider with an API key. `baseUrl` overrides the provider's own URL. */
export interface ChatUpstream {
  apiKey: string;
  baseUrl?: string;
}

const upstream = z.strictObject({
  apiKey: headerSecret,
  baseUrl: z.url({ protocol: /^https?$/ }).exactOptional(),
});
/** Schema of `CHAT_UPSTREAMS`: additional providers, e.g. for the operator's own models. */
const extraUpstreams = z.record(z.string().regex(/^[a-z][a-z0-9-]{0,31}$/), upstream);

/**
 * Returns the API keys and base URLs of chat providers, by provider name. Contains the providers in
 * `names` whose variable `<NAME>_API_KEY` is set, and the providers in CHAT_UPSTREAMS.
 * @throws ConfigError if a variable is invalid
 */
export function readChatUpstreams(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Readonly<Record<string, ChatUpstream>> {
  const upstreams: Record<string, ChatUpstream> = { ...readExtraUpstreams(env['CHAT_UPSTREAMS']) };
  for (const name of names) {
    const prefix = name.toUpperCase();
    const apiKey = env[`${prefix}_API_KEY`];
    if (!apiKey) continue;
    const baseUrl = env[`${prefix}_BASE_URL`];
    const parsed = upstream.safeParse({ apiKey, ...(baseUrl && { baseUrl }) });
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      throw new ConfigError(
        issue?.path[0] === 'apiKey'
          ? `configuration: ${prefix}_API_KEY is wrong: ${issue.message}`
          : `configuration: ${prefix}_BASE_URL is wrong: must be a URL`,
      );
    }
    upstreams[name] = parsed.data;
  }
  return upstreams;
}

function readExtraUpstreams(text: string | undefined): Record<string, ChatUpstream> {
  if (!text) return {};
  try {
    return extraUpstreams.parse(JSON.parse(text));
  } catch (error) {
    const issue = error instanceof z.ZodError ? error.issues[0] : undefined;
    const [name, field] = issue?.path ?? [];
    throw new ConfigError(
      `configuration: CHAT_UPSTREAMS is wrong: ${
        issue && field === 'apiKey' && issue.code === 'invalid_format'
          ? `${String(name)}.apiKey ${issue.message}`
          : 'must be JSON, {"name": {"apiKey": …, "baseUrl": …}}'
      }`,
    );
  }
}

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

/** Settings of job starts and of payload encryption in Temporal. */
export const payloadVariables = {
  /** Maximum number of simultaneous workflow starts per process; further starts wait. */
  TEMPORAL_STARTS_MAX: count(1, 10_000).default(16),
  /**
   * Encryption keys of Temporal payloads in the format `id:key,…`, newest first
   * (docs/payload-encryption.md).
   */
  PAYLOAD_KEYS: payloadKeys,
  /** True if new payloads are encrypted. If false, PAYLOAD_KEYS only decrypt existing payloads. */
  PAYLOAD_ENCRYPTION: flag.optional(),
};

/** Settings of the connection to Temporal; some tools need only these. */
export const temporalVariables = {
  TEMPORAL_ADDRESS: matching(/^[^\s/]+:\d{1,5}$/, 'host:port'),
  TEMPORAL_NAMESPACE: z.string().default('default'),
  TEMPORAL_TLS: flag.default(false),
  TEMPORAL_TLS_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_KEY_PATH: z.string().optional(),
  TEMPORAL_TLS_CA_PATH: z.string().optional(),
  TEMPORAL_API_KEY: headerSecret.optional(),
  /** Proxies of outgoing connections (connector.ts). Temporal uses that of HTTPS. */
  HTTPS_PROXY: proxyUrl.optional(),
  HTTP_PROXY: proxyUrl.optional(),
  NO_PROXY: z.string().optional(),
  ...payloadVariables,
};

/** Secrets of the gateway. They must differ, so that a leaked one does not reveal another. */
export const ownSecrets = [
  'STORAGE_SECRET',
  'KEY_PEPPER',
  'WEBHOOK_SECRET',
  'WEBHOOK_SIGNING_SECRET',
  'ADMIN_API_KEY',
  'KEY_PEPPER_PREVIOUS',
  'WEBHOOK_SECRET_PREVIOUS',
] as const;

/** Pairs of variables. The first variable of a pair requires the second one. */
export const neededVariables = [
  ['WORKER_DEPLOYMENT_NAME', 'WORKER_BUILD_ID'],
  ['TEMPORAL_TLS_CERT_PATH', 'TEMPORAL_TLS_KEY_PATH'],
  ['TEMPORAL_TLS_KEY_PATH', 'TEMPORAL_TLS_CERT_PATH'],
] as const;

/** Variables that STORAGE_DRIVER=s3 requires. */
export const s3Variables = ['S3_ENDPOINT', 'S3_REGION', 'S3_BUCKET'] as const;
/** Variables that S3_CREDENTIALS=keys requires; S3_CREDENTIALS=aws does not use them. */
export const s3KeyVariables = ['S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'] as const;

/** Environment variables of the gateway. Those of a Studio provider are in its folder. */
export const gatewayVariables = {
  // API: address, limits and wait times.
  NODE_ENV: z.string().default('development'),
  LOG_LEVEL: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'silent']).default('info'),
  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: port.default(4000),
  PUBLIC_BASE_URL: webUrl.optional(),
  /** Origins whose web pages may call the API. */
  CORS_ORIGINS: openOriginList,
  /**
   * Time for which a stopping process still serves while /readyz reports that it is not ready. The
   * process ends after 45 s (process/run-process.ts), 15 s of which its open requests may need.
   */
  DRAIN_DELAY_MS: count(0, 25_000).default(0),
  RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(60),
  POLL_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  /** Requests that an organization may make per minute, in multiples of a key's limits. */
  ORGANIZATION_RATE_FACTOR: count(1, 10_000).default(10),
  SYNC_WAIT_MS: count(0, 600_000).default(60_000),
  /**
   * Maximum time that an OpenAI-compatible endpoint waits for a job. It is below 600 s, because
   * OpenAI's clients then retry the request, which would start a second job.
   */
  COMPATIBLE_WAIT_MS: count(0, 600_000).default(590_000),
  /**
   * Maximum number of requests that one process serves at the same time, with event streams and
   * waiting requests. One organization gets at most half of them.
   */
  REQUESTS_MAX: count(32, 100_000).default(4096),
  /**
   * Maximum bytes of bodies and responses that the open requests of one process hold in memory. One
   * organization may hold half of them, so half must be enough for the largest request.
   */
  BODY_BYTES_MAX: count(41_943_040, 68_719_476_736).default(134_217_728),
  /** Maximum bytes of files that the unfinished requests of one process hold on disk. */
  SPOOL_BYTES_MAX: count(629_145_600, 1_099_511_627_776).default(1_073_741_824),

  // Postgres and Temporal: addresses, credentials and retention.
  DATABASE_URL: databaseUrl,
  /** Address of the database without a pooler, on which the API listens to notifications. */
  DATABASE_LISTEN_URL: databaseUrl.optional(),
  DATABASE_POOL_MAX: count(2, 200).default(12),
  ...temporalVariables,
  /** Origins of Temporal web UIs that may call the codec endpoint. */
  TEMPORAL_UI_ORIGINS: originList,
  /** Address of a copy of docs/runbooks, to which the overview of operators links. */
  RUNBOOKS_URL: webUrl.optional(),
  /** Prefix of the names of all task queues, so that several stacks can share one namespace. */
  TASK_QUEUE_PREFIX: matching(/^[a-z0-9-]*$/, 'only letters a to z, digits and -').default(''),
  /** Name of the worker deployment (docs/deploys.md). Workers are unversioned if it is not set. */
  WORKER_DEPLOYMENT_NAME: matching(
    /^[A-Za-z0-9_-]{1,100}$/,
    'at most 100 letters, digits, - and _',
  ).optional(),
  /** Build id of the workers in this process. */
  WORKER_BUILD_ID: matching(
    /^[A-Za-z0-9._-]{1,100}$/,
    'at most 100 letters, digits, ., - and _',
  ).optional(),
  /**
   * Versioning behavior of workflows. `AUTO_UPGRADE`: running jobs move to a new current version;
   * `PINNED`: running jobs stay on the version that started them.
   */
  WORKER_VERSIONING: oneOf(['AUTO_UPGRADE', 'PINNED']).default('AUTO_UPGRADE'),

  // Secrets of the gateway. The keys of providers and of the storage are in other sections.
  STORAGE_SECRET: secret,
  KEY_PEPPER: secret,
  /**
   * Previous value of KEY_PEPPER. API keys whose HMAC was computed with it remain valid. At the
   * next use of such a key, its HMAC is recomputed with KEY_PEPPER.
   */
  KEY_PEPPER_PREVIOUS: secret.optional(),
  WEBHOOK_SECRET: secret,
  /** Previous value of WEBHOOK_SECRET. Notification URLs that were signed with it remain valid. */
  WEBHOOK_SECRET_PREVIOUS: secret.optional(),
  /** Secret from which the secrets of caller webhooks are derived. */
  WEBHOOK_SIGNING_SECRET: secret,
  ADMIN_API_KEY: secret,

  // Storage of media, and the validity of signed URLs.
  /** `local`: files below STORAGE_DIR, which the API serves; `s3`: any S3-compatible store. */
  STORAGE_DRIVER: oneOf(['local', 's3']).default('local'),
  /** Directory of the `local` storage. Both kinds of storage also use it for temporary files. */
  STORAGE_DIR: z.string().default('.data/storage'),
  S3_ENDPOINT: webUrl.optional(),
  S3_REGION: z.string().optional(),
  S3_BUCKET: matching(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    'a bucket name: 3 to 63 characters of a to z, 0 to 9, . and -',
  ).optional(),
  /**
   * Source of the S3 credentials. `keys`: S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY; `aws`: the
   * default credential chain of the AWS SDK, for example the role of the pod or instance.
   */
  S3_CREDENTIALS: oneOf(['keys', 'aws']).default('keys'),
  S3_ACCESS_KEY_ID: headerSecret.optional(),
  S3_SECRET_ACCESS_KEY: headerSecret.optional(),
  /** Endpoint in the signed URLs that callers and providers receive. Defaults to S3_ENDPOINT. */
  S3_PUBLIC_BASE_URL: webUrl.optional(),
  /**
   * Receiver of uploads. `direct`: the store, at URLs that sign If-None-Match; `api`: the API, for
   * stores that refuse this header.
   */
  S3_UPLOADS: oneOf(['direct', 'api']).default('direct'),
  /**
   * Storage quota of one organization's uploads in bytes. Includes the maximum sizes of the upload
   * URLs that have not been used yet.
   */
  UPLOAD_BYTES_MAX: count(1, 1_000_000_000_000_000).default(50 * 1024 ** 3),
  /**
   * Time for which an upload is stored after the last request that used it. Must be longer than the
   * time limit of every job.
   */
  UPLOAD_KEPT_MS: count(86_400_000 * 2, 86_400_000 * 3650).default(86_400_000 * 30),
  /** Whether outputs that a provider did not mark as generated are marked (docs/files.md). */
  MARK_OUTPUTS: flag.default(true),
  /** Whether HEIC pictures are converted when they arrive (docs/deployment.md names the patents). */
  HEIC: oneOf(['on', 'off']).default('on'),

  // Studio: time limits of calls and jobs. The variables of each provider are in providers/.
  /** Origins that the outbound guard allows even if their address is private (sandbox, tests). */
  ALLOW_PRIVATE_NETWORK_ORIGINS: originList,
  /**
   * Maximum wait before the first status check of a call. The wait is three times the typical
   * duration of the model; a provider notification ends it early. Set a short time if provider
   * notifications cannot reach this gateway.
   */
  FIRST_CHECK_MAX_MS: count(50, 3_600_000).default(3_600_000),
  /** Maximum time for which a job tries to find out the unknown outcome of a call. */
  OUTCOME_WAIT_MS: count(1000, 86_400_000).default(300_000),
  /** Bulk jobs of an organization that may be open at the same time, and their items together. */
  BULK_OPEN_MAX: count(1, 10_000).default(5),
  BULK_OPEN_ITEMS_MAX: count(1, 10_000_000).default(20_000),

  // Chat: models, prices, sandbox and time limits.
  /** Path of a JSON file that adds chat models to the catalog and removes ids (docs/catalog.md). */
  CHAT_MODELS_FILE: z.string().optional(),
  /** The price book replaced this variable. */
  CHAT_PRICE_MARKUP: z
    .undefined({
      error:
        'was replaced by the price book. Remove it, and add the row that has its effect: studio admin prices add chat --markup <percent> --reason <reason> (docs/price-book.md)',
    })
    .optional(),
  /** URLs of the sandbox by protocol. It serves models of providers whose API key is not set. */
  SANDBOX_CHAT_OPENAI_URL: webUrl.optional(),
  SANDBOX_CHAT_ANTHROPIC_URL: webUrl.optional(),
  SANDBOX_CHAT_KEY: providerKey.optional(),
  /**
   * Maximum wait for the headers of a provider's response, and for each packet of a response that
   * is not streamed.
   */
  CHAT_ANSWER_TIMEOUT_MS: count(1000, 3_600_000).default(600_000),

  /**
   * Time for which the answer of a chat job is stored after its end; then only its usage remains. It ends
   * before the ledger archives the job, which would keep the text.
   */
  CHAT_ANSWERS_KEPT_MS: count(1000, 86_400_000 * 6).default(86_400_000),

  // Credits: exchange rate, allowance of an organization, intervals of sweeper and audit.
  USD_PER_CREDIT: decimal(0.000_001, 1_000_000).default(0.01),
  /**
   * Time after which a change of the price book counts. Each process reads the changes four times as
   * often; with 0, it reads them for each request that it prices.
   */
  PRICE_CHANGE_DELAY_MS: count(0, 3_600_000).default(10_000),
  /** Studio credits that an organization may use in six hours; unlimited if not set. */
  WINDOW_ALLOWANCE_CREDITS: decimal(0.000_001, 1_000_000_000).optional(),
  /** Interval at which a worker audits the ledger and the stored results. 0 disables the audit. */
  AUDIT_INTERVAL_MS: count(0, 86_400_000).default(600_000),
  /** Number of whole months after which jobs, chats and ledger entries are archived. 0 keeps all. */
  ARCHIVE_AFTER_MONTHS: count(0, 1200).default(0),

  // Caller webhooks: retry delays.
  /** Delays between attempts to deliver a webhook; the sum of the defaults is 51.7 hours. */
  WEBHOOK_RETRY_DELAYS_MS: delayList.default(
    [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400].map((s) => s * 1000),
  ),

  // Telemetry of a process (docs/telemetry.md).
  /** Port of /metrics, /healthz and /readyz, opened only if it is set; 0 means any free port. */
  METRICS_PORT: port.optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  /** URL of the OTLP/HTTP collector. If it is not set, nothing is traced. */
  OTEL_EXPORTER_OTLP_ENDPOINT: webUrl.optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(['http/protobuf', 'http/json']).default('http/protobuf'),
  OTEL_EXPORTER_OTLP_HEADERS: pairList,
  /** Service name in traces, to which the kind of process is appended (`-api`, `-worker`). */
  OTEL_SERVICE_NAME: z.string().default('studio-gateway'),
  /** Further attributes of all spans, e.g. `deployment.environment.name=production`. */
  OTEL_RESOURCE_ATTRIBUTES: pairList,
  /** Share of the traces that are exported, from 0 to 1. */
  OTEL_TRACES_SAMPLER_ARG: decimal(0, 1).default(1),
};

/**
 * Limits that suit every deployment that was measured, so they are constants. A process reads
 * variables of these names only if NODE_ENV is `test`: tests shorten waits.
 */
export const constantLimits = {
  /** Interval at which the files of TLS settings are read again. */
  CERTIFICATE_CHECK_MS: count(50, 3_600_000).default(10_000),
  /** Maximum wait for other workflow starts; then the request is rejected and no job exists. */
  TEMPORAL_START_WAIT_MS: count(0, 600_000).default(20_000),
  /** Reads of a console session per minute: a page with live lists needs about 30. */
  CONSOLE_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  /** Time without a byte after which a JSON response sends a blank; proxies close after 60 s. */
  COMPATIBLE_KEEPALIVE_MS: count(50, 60_000).default(15_000),
  /**
   * Maximum time that a request waits for the admission of its job. After that, the response has
   * status 503 and contains the job id.
   */
  VERDICT_WAIT_MS: count(1000, 600_000).default(60_000),
  /** Time limits of jobs, by medium: several times the slowest call of a model. */
  IMAGE_DEADLINE_MS: count(1000, 86_400_000).default(600_000),
  VIDEO_DEADLINE_MS: count(1000, 86_400_000).default(3_600_000),
  AUDIO_DEADLINE_MS: count(1000, 86_400_000).default(900_000),
  CHAT_DEADLINE_MS: count(1000, 86_400_000).default(3_600_000),
  /** Interval at which a bulk job that waits for credits reads the balance. */
  BULK_CREDIT_CHECK_MS: count(100, 3_600_000).default(15_000),
  /** Maximum time between two packets of a provider's stream. */
  CHAT_SILENCE_TIMEOUT_MS: count(1000, 3_600_000).default(120_000),
  /** Interval of the comments that are sent in a silent stream, so that proxies do not close it. */
  CHAT_KEEPALIVE_MS: count(50, 15_000).default(10_000),
  /** Interval at which a running chat records its progress. */
  CHAT_CHECKPOINT_MS: count(50, 600_000).default(5000),
  /** Time without a checkpoint after which the sweeper settles a chat. */
  CHAT_RESERVATION_TTL_MS: count(200, 86_400_000).default(60_000),
  /** Output tokens for which credits are reserved; tokens beyond them are charged too. */
  CHAT_EXPECTED_ANSWER_TOKENS: count(1, 1_000_000).default(4096),
  /** Maximum number of connections per chat provider. */
  CHAT_CONNECTIONS_MAX: count(1, 65_000).default(1024),
  /** Interval at which the sweeper checks that the workflow of each open reservation exists. */
  RESERVATION_TTL_MS: count(1000, 86_400_000).default(120_000),
  /** Interval of the sweeper. */
  SWEEP_INTERVAL_MS: count(100, 3_600_000).default(10_000),
  /** Time limit of one attempt to deliver a webhook. */
  WEBHOOK_TIMEOUT_MS: count(100, 60_000).default(15_000),
  /** Time between two exports of spans, in milliseconds. */
  OTEL_BSP_SCHEDULE_DELAY: count(50, 600_000).default(5000),
};
