/** The API: where it listens, how much it takes, how long it waits. */
import { z } from 'zod';
import { count, flag, openOriginList, port } from './values.ts';

/** See the file's head; what every process has (its log) is part of it. */
export const apiVariables = {
  NODE_ENV: z.string().default('development'),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent']).default('info'),
  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: port.default(4000),
  PUBLIC_BASE_URL: z.url().optional(),
  /** Origins whose pages may use the API. */
  CORS_ORIGINS: openOriginList,
  /** How long a process that was asked to end still serves while it says that it is not ready. */
  DRAIN_DELAY_MS: count(0, 60_000).default(0),
  /** Whether the API process also works on the Studio queue, so that workflows start eagerly. */
  API_WORKER: flag.default(true),
  RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(60),
  POLL_RATE_LIMIT_PER_MINUTE: count(1, 100_000_000).default(600),
  SYNC_WAIT_MS: count(0, 600_000).default(60_000),
  /** How long a started job may be undecided, because no worker takes it: then 503, with its id. */
  VERDICT_WAIT_MS: count(1000, 600_000).default(60_000),
  SYNC_WAITERS_MAX: count(1, 100_000).default(2000),
  /** Bytes of request bodies in flight, in this process and of one key; the largest body must fit. */
  BODY_BYTES_MAX: count(20_971_520, 68_719_476_736).default(134_217_728),
  BODY_BYTES_PER_KEY_MAX: count(20_971_520, 68_719_476_736).default(50_331_648),
};
