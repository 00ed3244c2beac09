import { dirname, join, resolve } from 'node:path';
import { providerDefinitions } from '../../providers/provider-registry.ts';
import { codecAccessToken } from '../../platform/payload-codec.ts';
import type { NodeProgram } from './node-service.ts';
import type { PostgresOptions } from './postgres.ts';
import type { Secrets } from './secrets.ts';
import type { Ports, Settings } from './settings.ts';
import type { TemporalOptions } from './temporal.ts';

const project = dirname(dirname(import.meta.dirname));
const database = 'gateway';

/** Scripts of the stack, relative to the project. */
export type Programs = Record<'sandbox' | 'migrate' | 'api' | 'worker', string>;
const ownPrograms: Programs = {
  sandbox: 'dev/sandbox/main.ts',
  migrate: 'platform/migrate.ts',
  api: 'api/main.ts',
  worker: 'worker/main.ts',
};

/** Programs of the stack, with their URLs and environments. */
export interface StackPlan {
  apiUrl: string;
  sandboxUrl: string;
  databaseUrl: string;
  temporalAddress: string;
  temporalNamespace: string;
  /** Null if the Temporal server is not part of the stack. */
  temporalUiUrl: string | null;
  postgres: PostgresOptions & { dataDir: string };
  /** Null if the Temporal server is not part of the stack. */
  temporal: (TemporalOptions & { dataDir: string }) | null;
  sandbox: NodeProgram;
  migrate: NodeProgram;
  api: NodeProgram;
  worker: NodeProgram;
}

export interface PlanInputs {
  settings: Settings;
  /** Chosen ports; none is 0 any longer. */
  ports: Ports;
  secrets: Secrets;
  /** The user's environment, which the programs inherit. */
  env: NodeJS.ProcessEnv;
  /** Scripts to run. Defaults to those of this project. */
  programs?: Programs | undefined;
}

/** Determines all URLs and environments of a stack before anything is started. */
export function planStack(inputs: PlanInputs): StackPlan {
  const { settings, ports, secrets, env, programs = ownPrograms } = inputs;
  const { dataDir, temporalAddress } = settings;
  const logPath = (name: string) => join(dataDir, 'logs', `${name}.log`);
  const wiring = {
    apiUrl: url(ports.api),
    sandboxUrl: url(ports.sandbox),
    databaseUrl: `postgres://postgres:${secrets.postgresPassword}@127.0.0.1:${ports.postgres}/${database}`,
    temporalAddress: temporalAddress ?? `127.0.0.1:${ports.temporal}`,
    temporalNamespace: settings.temporalNamespace,
  };
  const serviceEnv = {
    ...env,
    ...gatewayEnvironment(inputs, wiring),
    ...payloadEnvironment(inputs),
    ...chatEnvironment(inputs, wiring),
    ...sandboxEnvironment(inputs, wiring),
  };
  const program = (name: keyof Programs, programEnv: NodeJS.ProcessEnv): NodeProgram => ({
    name,
    script: resolve(project, programs[name]),
    env: programEnv,
    logPath: logPath(name),
  });
  return {
    ...wiring,
    temporalUiUrl: temporalAddress === null ? url(ports.temporalUi) : null,
    postgres: {
      dataDir: join(dataDir, 'postgres'),
      port: ports.postgres,
      password: secrets.postgresPassword,
      database,
      logPath: logPath('postgres'),
    },
    temporal:
      temporalAddress === null
        ? {
            dataDir: join(dataDir, 'temporal'),
            port: ports.temporal,
            uiPort: ports.temporalUi,
            codecEndpoint: codecEndpoint(inputs, wiring),
            namespace: settings.temporalNamespace,
            logPath: logPath('temporal'),
          }
        : null,
    sandbox: program('sandbox', {
      ...env,
      SANDBOX_PORT: String(ports.sandbox),
      SANDBOX_DATA_DIR: join(dataDir, 'sandbox'),
      SANDBOX_FAL_KEY: secrets.sandboxKey,
      SANDBOX_CHAT_KEY: secrets.sandboxKey,
      SANDBOX_OPENAI_KEY: secrets.sandboxKey,
      SANDBOX_ELEVENLABS_KEY: secrets.sandboxKey,
    }),
    migrate: program('migrate', serviceEnv),
    api: program('api', { ...serviceEnv, ...memoryLimits(env) }),
    worker: program('worker', { ...serviceEnv, ...memoryLimits(env), ...workerMetrics(env) }),
  };
}

/**
 * Limits V8's young generation, which would otherwise grow to 100 MB without need, and the arenas of
 * glibc's allocator, as the container image does (deploy/Dockerfile).
 */
function memoryLimits({ NODE_OPTIONS: given }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    NODE_OPTIONS: [given, '--max-semi-space-size=8'].filter(Boolean).join(' '),
    MALLOC_ARENA_MAX: '2',
  };
}

/** Serves the worker's metrics on the port after the API's, because both run on one machine. */
function workerMetrics({ METRICS_PORT: port }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Number(port) > 0 ? { METRICS_PORT: String(Number(port) + 1) } : {};
}

type Wiring = Pick<
  StackPlan,
  'apiUrl' | 'sandboxUrl' | 'databaseUrl' | 'temporalAddress' | 'temporalNamespace'
>;

function url(port: number): string {
  return `http://127.0.0.1:${port}`;
}

/** Environment of the API and the worker (read by platform/config.ts). */
function gatewayEnvironment(
  { settings, ports, secrets, env }: PlanInputs,
  wiring: Wiring,
): NodeJS.ProcessEnv {
  return {
    DATABASE_URL: wiring.databaseUrl,
    TEMPORAL_ADDRESS: wiring.temporalAddress,
    TEMPORAL_NAMESPACE: wiring.temporalNamespace,
    API_HOST: '127.0.0.1',
    API_PORT: String(ports.api),
    PUBLIC_BASE_URL: env['PUBLIC_BASE_URL'] || wiring.apiUrl,
    // A real provider cannot send notifications to this machine, so its status is checked sooner.
    ...(env['FAL_KEY'] && !env['PUBLIC_BASE_URL'] && { FIRST_CHECK_MAX_MS: '2000' }),
    STORAGE_DIR: join(settings.dataDir, 'storage'),
    STORAGE_SECRET: secrets.storageSecret,
    KEY_PEPPER: secrets.keyPepper,
    WEBHOOK_SECRET: secrets.webhookSecret,
    WEBHOOK_SIGNING_SECRET: secrets.webhookSigningSecret,
    ADMIN_API_KEY: secrets.adminKey,
  };
}

/**
 * Configures payload encryption. It is off by default, because a local stack stores the key next to
 * the database that it would protect.
 */
function payloadEnvironment({ ports, secrets, env }: PlanInputs): NodeJS.ProcessEnv {
  const uiOrigins = ['127.0.0.1', 'localhost'].map((host) => `http://${host}:${ports.temporalUi}`);
  return {
    TEMPORAL_UI_ORIGINS: env['TEMPORAL_UI_ORIGINS'] || uiOrigins.join(','),
    ...(!env['PAYLOAD_KEYS'] && {
      PAYLOAD_KEYS: secrets.payloadKey,
      PAYLOAD_ENCRYPTION: env['PAYLOAD_ENCRYPTION'] || 'false',
    }),
  };
}

/** Returns the URL where Temporal's UI decrypts payloads, or null if they are not encrypted. */
function codecEndpoint({ secrets, env }: PlanInputs, { apiUrl }: Wiring): string | null {
  if (env['PAYLOAD_ENCRYPTION'] !== 'true' && !env['PAYLOAD_KEYS']) return null;
  return `${apiUrl}/api/admin/v1/temporal/codec/read/${codecAccessToken(secrets.adminKey)}`;
}

/** Replaces each provider that has no key with the sandbox. */
function sandboxEnvironment(
  { secrets, env }: PlanInputs,
  { sandboxUrl, apiUrl }: Wiring,
): NodeJS.ProcessEnv {
  const allowedOrigins = [env['ALLOW_PRIVATE_NETWORK_ORIGINS'], sandboxUrl, apiUrl];
  const replaced = [...providerDefinitions.values()].flatMap(({ key, sandbox }) =>
    env[key] || sandbox === null ? [] : [{ [key]: secrets.sandboxKey, ...sandbox(sandboxUrl) }],
  );
  if (replaced.length === 0) return {};
  return Object.assign(
    { ALLOW_PRIVATE_NETWORK_ORIGINS: allowedOrigins.filter(Boolean).join(',') },
    ...replaced,
  );
}

/** Configures the sandbox's chat models, which replace those of providers without a key. */
function chatEnvironment({ secrets }: PlanInputs, { sandboxUrl }: Wiring): NodeJS.ProcessEnv {
  return {
    SANDBOX_CHAT_OPENAI_URL: `${sandboxUrl}/chat-openai/v1`,
    SANDBOX_CHAT_ANTHROPIC_URL: `${sandboxUrl}/chat-anthropic`,
    SANDBOX_CHAT_KEY: secrets.sandboxKey,
  };
}

/** Returns, for each service, a part of its command line by which its process can be recognized. */
export function processMarks(plan: StackPlan): Record<string, string> {
  return {
    postgres: plan.postgres.dataDir,
    ...(plan.temporal ? { temporal: plan.temporal.dataDir } : {}),
    sandbox: plan.sandbox.script,
    api: plan.api.script,
    worker: plan.worker.script,
  };
}
