/**
 * Reads the configuration of a process from environment variables, once, at the start. If a value
 * is missing or invalid, the process prints one line that names the variable but never its value,
 * and exits.
 */
import { z } from 'zod';
import {
  constantLimits,
  readChatUpstreams,
  type ChatUpstream,
  gatewayVariables,
  neededVariables,
  ownSecrets,
  s3KeyVariables,
  s3Variables,
  type temporalVariables,
} from './config-variables.ts';
import { ConfigError } from './variable-types.ts';

const environment = z
  .object({ ...gatewayVariables, ...constantLimits })
  .superRefine((config, context) => {
    const addFault = (name: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [name], message });

    function requireWith(condition: string, names: readonly (keyof typeof config)[]): void {
      for (const name of names) {
        if (config[name] === undefined) addFault(name, `is required by ${condition}`);
      }
    }

    if (config.PAYLOAD_ENCRYPTION === true && config.PAYLOAD_KEYS.length === 0) {
      addFault('PAYLOAD_KEYS', 'is required by PAYLOAD_ENCRYPTION=true');
    }
    ownSecrets.forEach((name, index) => {
      const other = ownSecrets.slice(0, index).find((earlier) => config[earlier] === config[name]);
      if (config[name] !== undefined && other) addFault(name, `must differ from ${other}`);
    });
    for (const [name, needed] of neededVariables) {
      if (config[name] !== undefined) requireWith(name, [needed]);
    }
    if (config.STORAGE_DRIVER !== 's3') return;
    requireWith('STORAGE_DRIVER=s3', s3Variables);
    if (config.S3_CREDENTIALS === 'keys') requireWith('S3_CREDENTIALS=keys', s3KeyVariables);
  });

/** Configuration of a process. The names of the variables contain their units. */
export type Config = Omit<z.infer<typeof environment>, 'PAYLOAD_ENCRYPTION'> & {
  /** True if new payloads are encrypted. */
  PAYLOAD_ENCRYPTION: boolean;
  /** Variables of Studio's providers (providers/provider.ts). */
  PROVIDER_VARIABLES: Readonly<Record<string, unknown>>;
  /** Chat providers for which the gateway has an API key, by name. */
  CHAT_UPSTREAMS: Readonly<Record<string, ChatUpstream>>;
};

/** Providers whose variables are read. Callers pass them, as this folder must not import them. */
export interface KnownProviders {
  /** Schemas of the variables of the Studio providers. */
  variables: z.ZodRawShape;
  /** Names of the chat providers; `<NAME>_API_KEY` and `<NAME>_BASE_URL` are read for each. */
  chat: readonly string[];
}

/**
 * Reads the configuration from environment variables. An empty variable counts as not set. `known`
 * contains the providers of providers/provider-registry.ts.
 * @throws ConfigError that names every missing or invalid variable
 */
export function loadConfig(
  known: KnownProviders,
  env: Record<string, string | undefined> = process.env,
): Config {
  const present = pickSetVariables(env);
  const isTest = present['NODE_ENV'] === 'test';
  const read = Object.entries(present).filter(([name]) => isTest || !(name in constantLimits));
  const parsed = environment.safeParse(Object.fromEntries(read));
  const providers = z.object(known.variables).safeParse(present);
  if (parsed.success && providers.success) {
    return {
      ...parsed.data,
      PAYLOAD_ENCRYPTION: encryptsPayloads(parsed.data),
      PROVIDER_VARIABLES: providers.data,
      CHAT_UPSTREAMS: readChatUpstreams(present, known.chat),
    };
  }
  const faults = new Map<string, string>();
  for (const issue of [...(parsed.error?.issues ?? []), ...(providers.error?.issues ?? [])]) {
    const name = String(issue.path[0]);
    // Only the first issue of each variable is reported.
    if (!faults.has(name)) faults.set(name, describeFault(issue, present[name] === undefined));
  }
  const messages = [...faults].map(([name, fault]) => `${name} ${fault}`);
  throw new ConfigError(`configuration: ${messages.join('; ')}`);
}

function describeFault({ code, message }: z.core.$ZodIssue, isMissing: boolean): string {
  if (!isMissing) return `is wrong: ${message}`;
  return code === 'custom' ? message : 'is required';
}

/** Address and credentials of the Temporal server. */
export type TemporalConfig = Pick<Config, keyof typeof temporalVariables>;

/** Returns whether new payloads are encrypted. By default, they are if there are keys. */
export function encryptsPayloads(
  parsed: Pick<z.infer<typeof environment>, 'PAYLOAD_ENCRYPTION' | 'PAYLOAD_KEYS'>,
): boolean {
  return parsed.PAYLOAD_ENCRYPTION ?? parsed.PAYLOAD_KEYS.length > 0;
}

/** Variables that are read in lower case first, as other programs do. */
const lowerCaseToo = ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'];

/**
 * Returns the variables that are set and not empty, without white space, line ends and byte order
 * marks at their ends, which files and secret stores add.
 */
export function pickSetVariables(
  env: Record<string, string | undefined>,
): Record<string, string | undefined> {
  const trimmed = Object.entries(env).map(([name, value]) => [name, value?.trim()] as const);
  const set = new Map(trimmed.filter(([, value]) => value));
  for (const name of lowerCaseToo) {
    const value = set.get(name.toLowerCase());
    if (value !== undefined) set.set(name, value);
  }
  return Object.fromEntries(set);
}

/** EX_CONFIG of sysexits.h: a supervisor can distinguish an invalid setting from a crash. */
export const configExitStatus = 78;

/** Reads NO_PROXY for agents, whose library reads the other two variables of proxies itself. */
export const readNoProxy = (): string | undefined => pickSetVariables(process.env)['NO_PROXY'];

/** Loads the configuration, or prints the error on one line and exits with `configExitStatus`. */
export function loadConfigOrExit(known: KnownProviders): Config {
  try {
    return loadConfig(known);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return process.exit(configExitStatus);
  }
}
