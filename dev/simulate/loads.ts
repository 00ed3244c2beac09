/** Formulas for the resources of a load, from measured constants. */
import { assumed, measured, type Figure } from './measured.ts';

/** Constant load. */
export interface Load {
  name: string;
  /** Studio jobs per second. */
  jobs: number;
  /** Time that the provider takes for a job, in seconds. */
  providerSeconds: number;
  /** Chats per second. */
  chats: number;
}

const daySeconds = 86_400;
const daysPerMonth = 30;
const gigabyte = 1e9;

const value = ({ amount }: Figure): number => amount;

/**
 * Returns the CPU of a job by the time of its provider, interpolated between two measurements: a
 * longer job is replayed or checked once more.
 */
function longerBy(providerSeconds: number): number {
  const share = Math.min(1, Math.max(0, (providerSeconds - 4) / 56));
  return 1 + share * (value(measured.longProviderFactor) - 1);
}

/** Returns the cores for an amount of work, at the allowed utilization. */
function coresFor(msPerSecond: number): number {
  return msPerSecond / 1000 / value(assumed.busyShare);
}

const processesFor = (cores: number): number =>
  Math.max(value(assumed.spareProcesses), Math.ceil(cores / value(assumed.processCores)));

/**
 * Returns the smallest power of two of shards, at least four, that suffices for this number of jobs
 * per second.
 */
function shardsFor(jobs: number): number {
  let shards = 4;
  while (shards * shardJobsPerSecond() < jobs) shards *= 2;
  return shards;
}

/**
 * Returns the jobs per second of one shard, which writes one transaction at a time, at the allowed
 * utilization.
 */
function shardJobsPerSecond(): number {
  const busyMs = value(measured.shardWrites) * value(assumed.shardWriteMs);
  return (1000 * value(assumed.busyShare)) / busyMs;
}

/** Calculates the jobs per second of one API process. */
export function apiJobsPerSecond(providerSeconds: number): number {
  const ms = value(measured.apiCpuMs) * longerBy(providerSeconds);
  return (value(assumed.processCores) * value(assumed.busyShare) * 1000) / ms;
}

/** Resource that is exhausted at some load. */
export interface Limit {
  resource: string;
  /** Jobs per second, with a provider of 4 s. */
  jobs: number;
  /** Remedy. */
  remedy: string;
}

/** Resources in the order in which they are exhausted as a load grows. */
export function limits(): Limit[] {
  const busyMs = value(assumed.primaryCores) * value(assumed.busyShare) * 1000;
  const perApi = value(assumed.poolConnections) / apiJobsPerSecond(4);
  const temporalCores = value(measured.temporalCpuMs) / 1000 / value(assumed.busyShare);
  const perNode = value(assumed.temporalConnections) / value(assumed.temporalNodeCores);
  const found: Limit[] = [
    {
      resource: 'one API process',
      jobs: apiJobsPerSecond(4),
      remedy: 'add processes: they hold no state',
    },
    {
      resource: `${value(assumed.connectionsMax)} connections`,
      jobs: value(assumed.connectionsMax) / (perApi + temporalCores * perNode),
      remedy: 'a smaller `DATABASE_POOL_MAX`, and a database of its own for Temporal',
    },
    {
      resource: `one primary of ${value(assumed.primaryCores)} cores for both`,
      jobs: busyMs / value(measured.bothPostgresCpuMs),
      remedy:
        'a database of its own for Temporal (a separate one for its lists, or Elasticsearch; Cassandra; Cloud)',
    },
    {
      resource: `${value(assumed.composeShards)} history shards`,
      jobs: value(assumed.composeShards) * shardJobsPerSecond(),
      remedy:
        'choose 512 or 4,096 before the first job: the number cannot change; later a new namespace on a new cluster',
    },
    {
      resource: 'one organization',
      jobs: value(assumed.organizationJobs),
      remedy: 'an account for each of its departments',
    },
    {
      resource: `one primary of ${value(assumed.primaryCores)} cores for ours alone`,
      jobs: busyMs / value(measured.postgresCpuMs),
      remedy:
        'reads of usage and lists from a standby; old rows to partitions by month; then cells',
    },
  ];
  return found.toSorted((first, second) => first.jobs - second.jobs);
}

/** Calculates the resources of a load. */
export function needOf({ jobs, providerSeconds, chats }: Load) {
  const longer = longerBy(providerSeconds);
  const apiMs = value(measured.apiCpuMs) * longer;
  const workerMs = (value(measured.workerCpuMs) + value(measured.decodeCpuMs)) * longer;
  const apis = processesFor(coresFor(jobs * apiMs + chats * value(measured.chatCpuMs)));
  const workers = processesFor(coresFor(jobs * workerMs));
  const temporalCores = coresFor(jobs * value(measured.temporalCpuMs) * longer);
  const temporalNodes = Math.max(1, Math.ceil(temporalCores / value(assumed.temporalNodeCores)));
  const postgresCores = coresFor(
    jobs * value(measured.bothPostgresCpuMs) * longer + chats * value(measured.chatPostgresCpuMs),
  );
  const connections =
    (apis + workers) * value(assumed.poolConnections) +
    temporalNodes * value(assumed.temporalConnections);
  const mediaBytesPerSecond = jobs * value(assumed.mediaBytes);
  const postgresBytes = jobs * value(measured.postgresBytes) + chats * value(measured.chatBytes);
  const temporalBytes =
    jobs * value(measured.temporalBytes) * daySeconds * value(assumed.historyDays);
  const cores = (apis + workers) * value(assumed.processCores) + temporalCores + postgresCores;
  const diskBytes = postgresBytes * daySeconds * daysPerMonth + temporalBytes;
  return {
    // Little's law: the number of jobs in flight.
    jobsInFlight: jobs * providerSeconds,
    chatsInFlight: chats * value(assumed.chatSeconds),
    apis,
    workers,
    temporalCores,
    shards: shardsFor(jobs),
    postgresCores,
    connections,
    // Results pass through the worker that stores them: in and out.
    mediaBytesPerSecond,
    mediaBytesPerDay: mediaBytesPerSecond * daySeconds,
    postgresBytesPerDay: postgresBytes * daySeconds,
    // Upper bound: the jobs of all days for which histories are retained.
    temporalBytes,
    machinesUsdPerDay: cores * 24 * value(assumed.coreHourUsd),
    diskUsdPerDay: ((diskBytes / gigabyte) * value(assumed.diskMonthUsd)) / daysPerMonth,
    mediaUsdPerDay: ((mediaBytesPerSecond * daySeconds) / gigabyte) * value(assumed.mediaMonthUsd),
    providersUsdPerDay:
      daySeconds * (jobs * value(assumed.jobUsd) + chats * value(assumed.chatUsd)),
  };
}

/** Resources of a load. */
export type Need = ReturnType<typeof needOf>;
