/**
 * Configuration: the only reader of the environment. One schema, read once at start; a missing or
 * wrong value stops the process with one line that names the variable, never its value.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ChatUpstreamError, readChatUpstreams, type ChatUpstream } from './chat-upstreams.ts';
import { readPayloadKeys } from './payload-codec.ts';

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
const ownSecrets = [
  'STORAGE_SECRET',
  'KEY_PEPPER',
  'WEBHOOK_SECRET',
  'WEBHOOK_SIGNING_SECRET',
  'ADMIN_API_KEY',
  'KEY_PEPPER_PREVIOUS',
] as const;
const flag = z.enum(['true', 'false']).transform((value) => value === 'true');
const port = z.coerce.number().int().min(0).max(65_535);
const count = (min: number, max: number) => z.coerce.number().int().min(min).max(max);
const originList = z
  .string()
  .default('')
  .transform((value) => value.split(',').filter(Boolean))
  .pipe(z.array(z.url().transform((value) => new URL(value).origin)));
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

/** What STORAGE_DRIVER=s3 cannot do without. */
const s3Variables = [
  'S3_ENDPOINT',
  'S3_REGION',
  'S3_BUCKET',
  'S3_ACCESS_KEY_ID',
  'S3_SECRET_ACCESS_KEY',
] as const;

const variables = z.object({
  NODE_ENV: z.string().default('development'),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent']).default('info'),

  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  DATABASE_POOL_MAX: count(2, 200).default(12),

  TEMPORAL_ADDRESS: z.string().regex(/^[^\s/]+:\d+$/, 'must be host:port'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_TLS: flag.default(false),
  TEMPORAL_TLS_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_KEY_PATH: z.string().optional(),
  TEMPORAL_TLS_CA_PATH: z.string().optional(),
  TEMPORAL_API_KEY: z.string().optional(),
  /** Workflows that a process starts at the same time; the others wait their turn. */
  TEMPORAL_STARTS_MAX: count(1, 10_000).default(64),
  /** How long a job waits for its turn; after that its request is refused, and nothing was started. */
  TEMPORAL_START_WAIT_MS: count(0, 600_000).default(20_000),
  /** `id:key,…`: keys that seal what Temporal keeps, newest first (docs/payload-encryption.md). */
  PAYLOAD_KEYS: payloadKeys,
  /** False: the keys only open what was sealed before. */
  PAYLOAD_ENCRYPTION: flag.optional(),
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

  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: port.default(4000),
  PUBLIC_BASE_URL: z.url().optional(),
  /** How long a process that was asked to end still serves while it says that it is not ready. */
  DRAIN_DELAY_MS: count(0, 60_000).default(0),
  /** Whether the API process also works on the Studio queue, so that workflows start eagerly. */
  API_WORKER: flag.default(true),

  /** `local`: files below STORAGE_DIR, served by the API; `s3`: any S3-compatible store. */
  STORAGE_DRIVER: z.enum(['local', 's3']).default('local'),
  /** Objects of the local driver; with both drivers, files on their way into the storage. */
  STORAGE_DIR: z.string().min(1).default('.data/storage'),
  STORAGE_SECRET: secret,
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
  KEY_PEPPER: secret,
  /** Keys that are known under it are accepted too, and known under KEY_PEPPER from then on. */
  KEY_PEPPER_PREVIOUS: secret.optional(),
  WEBHOOK_SECRET: secret,
  /** Callers' webhook secrets are derived from it. */
  WEBHOOK_SIGNING_SECRET: secret,
  ADMIN_API_KEY: secret,

  FAL_KEY: z.string().min(8),
  FAL_QUEUE_URL: z.url().default('https://queue.fal.run'),
  FAL_JWKS_URL: z.url().default('https://rest.fal.ai/.well-known/jwks.json'),
  FAL_CONCURRENCY: count(1, 2000).default(200),
  /** The second route of some image models; without a key they have the first one only. */
  OPENAI_IMAGES_API_KEY: z.string().min(8).optional(),
  OPENAI_IMAGES_BASE_URL: z.url().default('https://api.openai.com/v1'),
  OPENAI_IMAGES_CONCURRENCY: count(1, 2000).default(20),
  ELEVENLABS_API_KEY: z.string().min(8),
  ELEVENLABS_BASE_URL: z.url().default('https://api.elevenlabs.io'),
  /** Calls at the same time per worker process; the provider's plan allows few in all. */
  ELEVENLABS_CONCURRENCY: count(1, 2000).default(5),
  /**
   * How a call reaches its provider's code: `auto` sends a call that is quickly sent from the workflow
   * task while the provider has room, all others on the provider's queue; `queued` uses the queue only.
   */
  CALL_DISPATCH: z.enum(['auto', 'queued']).default('auto'),
  /**
   * How long a submit stays to hear the end of a quick call, at most. Beyond it the workflow waits, and
   * a cancel is heard; 0 = always.
   */
  SUBMIT_LINGER_MS: count(0, 5000).default(1000),
  /** Origins that the outbound guard admits although their address is private (sandbox, tests). */
  ALLOW_PRIVATE_NETWORK_ORIGINS: originList,

  RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(60),
  POLL_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  SYNC_WAIT_MS: count(0, 600_000).default(60_000),
  SYNC_WAITERS_MAX: count(1, 100_000).default(2000),
  /** Studio credits an organization may use in six hours; absent = no limit. */
  WINDOW_ALLOWANCE_CREDITS: z.coerce.number().positive().optional(),
  /** JSON: chat models of the operator's own, and ids taken out (docs/catalog.md). */
  CHAT_MODELS_FILE: z.string().min(1).optional(),
  /** Added to the catalog's chat prices: 0.2 is 20 % on top. */
  CHAT_PRICE_MARKUP: z.coerce.number().min(0).max(10).default(0),
  USD_PER_CREDIT: z.coerce.number().positive().default(0.01),
  /** First wait before the workflow asks the provider itself; grows with every check. */
  CHECK_INTERVAL_MS: count(50, 600_000).default(5000),
  /** How long work may take before the job is given up, by medium. */
  IMAGE_DEADLINE_MS: count(1000, 86_400_000).default(600_000),
  VIDEO_DEADLINE_MS: count(1000, 86_400_000).default(3_600_000),
  AUDIO_DEADLINE_MS: count(1000, 86_400_000).default(900_000),
  /** How long to wait for a provider's word once an outcome is unknown. */
  OUTCOME_WAIT_MS: count(1000, 86_400_000).default(300_000),
  /** Serves the chat models of providers that have no key (platform/chat-upstreams.ts). */
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
  /** How often running chats are recorded, and how long a chat without a record is believed to run. */
  CHAT_CHECKPOINT_MS: count(50, 600_000).default(5000),
  CHAT_RESERVATION_TTL_MS: count(200, 86_400_000).default(300_000),
  /** A leased budget that its process does not confirm for this long is ended by the sweeper. */
  CHAT_LEASE_TTL_MS: count(1000, 86_400_000).default(30_000),
  /** Connections to one provider. */
  CHAT_CONNECTIONS_MAX: count(1, 65_000).default(1024),
  /** How often the sweeper asks whether an open reservation still has a running workflow. */
  RESERVATION_TTL_MS: count(1000, 86_400_000).default(120_000),
  SWEEP_INTERVAL_MS: count(100, 3_600_000).default(10_000),
  /** How often a worker checks every promise about money and results; 0 = never. */
  AUDIT_INTERVAL_MS: count(0, 86_400_000).default(600_000),

  /** Serves /metrics, /healthz and /readyz of this process; absent = nothing is counted. 0 = any port. */
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
  /** How long a caller's receiver may take for a webhook. */
  WEBHOOK_TIMEOUT_MS: count(100, 60_000).default(15_000),
  /** Waits between the attempts at a webhook: together 51.7 hours. */
  WEBHOOK_RETRY_DELAYS_MS: delayList.default(
    [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400].map((s) => s * 1000),
  ),
});

const environment = variables.superRefine((config, context) => {
  if (config.PAYLOAD_ENCRYPTION === true && config.PAYLOAD_KEYS.length === 0) {
    const message = 'is required by PAYLOAD_ENCRYPTION';
    context.addIssue({ code: 'custom', path: ['PAYLOAD_KEYS'], message });
  }
  ownSecrets.forEach((name, index) => {
    const other = ownSecrets.slice(0, index).find((earlier) => config[earlier] === config[name]);
    if (other === undefined) return;
    context.addIssue({ code: 'custom', path: [name], message: `must differ from ${other}` });
  });
  if (config.WORKER_DEPLOYMENT_NAME !== undefined && config.WORKER_BUILD_ID === undefined) {
    context.addIssue({
      code: 'custom',
      path: ['WORKER_BUILD_ID'],
      message: 'is required by WORKER_DEPLOYMENT_NAME',
    });
  }
  if (config.STORAGE_DRIVER !== 's3') return;
  for (const name of s3Variables) {
    if (config[name] === undefined) {
      context.addIssue({ code: 'custom', path: [name], message: 'is required by STORAGE_DRIVER' });
    }
  }
});

/** The configuration of a process: durations in milliseconds, sizes in bytes, as named. */
export type Config = Omit<z.infer<typeof environment>, 'PAYLOAD_ENCRYPTION'> & {
  /** Whether new payloads are sealed: with keys yes, unless told otherwise. */
  PAYLOAD_ENCRYPTION: boolean;
  /** Chat providers that have a key, by name. */
  CHAT_UPSTREAMS: Readonly<Record<string, ChatUpstream>>;
};

/** A configuration that cannot be used; its message is one line naming the variable. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * Reads the configuration from an environment; empty variables count as absent.
 * @throws ConfigError naming every missing or wrong variable.
 */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value));
  const parsed = environment.safeParse(present);
  if (parsed.success) {
    const { PAYLOAD_KEYS: keys, PAYLOAD_ENCRYPTION: encrypts = keys.length > 0 } = parsed.data;
    const CHAT_UPSTREAMS = chatUpstreams(present);
    return { ...parsed.data, PAYLOAD_ENCRYPTION: encrypts, CHAT_UPSTREAMS };
  }
  const faults = new Map<string, string>();
  for (const issue of parsed.error.issues) {
    const name = issue.path.map(String).join('.');
    const missing = present[name] === undefined;
    // One word per variable is enough to mend it.
    if (!faults.has(name)) faults.set(name, missing ? 'is required' : `is wrong: ${issue.message}`);
  }
  const told = [...faults].map(([name, fault]) => `${name} ${fault}`);
  throw new ConfigError(`configuration: ${told.join('; ')}`);
}

function chatUpstreams(env: Record<string, string | undefined>): Config['CHAT_UPSTREAMS'] {
  try {
    return readChatUpstreams(env);
  } catch (error) {
    if (error instanceof ChatUpstreamError) {
      throw new ConfigError(`configuration: ${error.message}`, { cause: error });
    }
    throw error;
  }
}

const temporalVariables = variables.pick({
  TEMPORAL_ADDRESS: true,
  TEMPORAL_NAMESPACE: true,
  TEMPORAL_TLS: true,
  TEMPORAL_TLS_CERT_PATH: true,
  TEMPORAL_TLS_KEY_PATH: true,
  TEMPORAL_TLS_CA_PATH: true,
  TEMPORAL_API_KEY: true,
  PAYLOAD_KEYS: true,
  PAYLOAD_ENCRYPTION: true,
});

/** Where the Temporal server is, and how it is reached. */
export type TemporalConfig = Omit<z.infer<typeof temporalVariables>, 'PAYLOAD_ENCRYPTION'> & {
  PAYLOAD_ENCRYPTION: boolean;
};

/** The stack of this checkout, where it runs (`npm start` writes it). */
const stackDescription = z.object({ temporalAddress: z.string(), temporalNamespace: z.string() });

/**
 * Configuration of a tool that only speaks to Temporal: of the environment, else of the local stack.
 * @throws ConfigError
 */
export function loadTemporalConfig(
  env: Record<string, string | undefined> = process.env,
): TemporalConfig {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value));
  const parsed = temporalVariables.safeParse({ ...localTemporal(present['DATA_DIR']), ...present });
  if (parsed.success) return { ...parsed.data, ...loadPayloadSettings(env) };
  const names = parsed.error.issues.map((issue) => issue.path.map(String).join('.'));
  throw new ConfigError(`configuration: ${[...new Set(names)].join(', ')} missing or wrong`);
}

/** Keys of payloads alone, for a tool that reads histories. @throws ZodError */
export function loadPayloadSettings(
  env: Record<string, string | undefined> = process.env,
): Pick<TemporalConfig, 'PAYLOAD_KEYS' | 'PAYLOAD_ENCRYPTION'> {
  const { PAYLOAD_KEYS: keys, PAYLOAD_ENCRYPTION: encrypts = keys.length > 0 } = variables
    .pick({ PAYLOAD_KEYS: true, PAYLOAD_ENCRYPTION: true })
    .parse(Object.fromEntries(Object.entries(env).filter(([, value]) => value)));
  return { PAYLOAD_KEYS: keys, PAYLOAD_ENCRYPTION: encrypts };
}

function localTemporal(dataDir = '.data'): Record<string, string> {
  try {
    const described: unknown = JSON.parse(readFileSync(join(dataDir, 'stack.json'), 'utf8'));
    const { temporalAddress, temporalNamespace } = stackDescription.parse(described);
    return { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: temporalNamespace };
  } catch {
    return {};
  }
}

/** Loads the configuration of a process, or prints the fault on one line and exits with status 78. */
export function loadConfigOrExit(): Config {
  try {
    return loadConfig();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    // EX_CONFIG of sysexits: a supervisor can tell a wrong setting from a crash.
    return process.exit(78);
  }
}
