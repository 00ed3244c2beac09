/**
 * Constants of docs/scaling.md. A measured constant quotes docs/performance.md
 * (test/simulate/scaling.test.ts compares them); an assumed one states its reason.
 */

/** Constant, in the unit of its name. */
export interface Figure {
  amount: number;
  /** Description for the page. */
  what: string;
}

/** Constant whose figure is in docs/performance.md. */
export interface Measured extends Figure {
  /** Quotation of the page. */
  words: string;
}

/** Constants measured on two cores; figures of other machines differ by a third or more. */
export const measured = {
  apiCpuMs: {
    amount: 15,
    what: 'CPU ms of a job in an API process, provider of 4 s',
    words: 'Temporal 53, worker 52, API 15, Postgres 8',
  },
  workerCpuMs: {
    amount: 52,
    what: 'CPU ms of a job in a worker process, provider of 4 s',
    words: 'Temporal 53, worker 52, API 15, Postgres 8',
  },
  postgresCpuMs: {
    amount: 8,
    what: 'CPU ms of a job in our Postgres',
    words: 'Temporal 53, worker 52, API 15, Postgres 8',
  },
  decodeCpuMs: {
    amount: 8,
    what: 'CPU ms of decoding one image of 1024 × 1024',
    words: 'decoding a 1024 × 1024 PNG or JPEG | 8 ms',
  },
  longProviderFactor: {
    amount: 1.3,
    what: 'what a provider of 120 s makes of the CPU of one of 4 s',
    words: '169 ms of CPU each',
  },
  chatCpuMs: {
    amount: 0.46,
    what: 'CPU ms of a streamed chat in an API process that has many',
    words: 'gateway 464, Postgres 230',
  },
  chatPostgresCpuMs: {
    amount: 0.23,
    what: 'CPU ms of a chat in our Postgres, the same',
    words: 'gateway 464, Postgres 230',
  },
  chatBytes: {
    amount: 1900,
    what: 'bytes that a chat leaves in our database',
    words: 'A chat leaves 1.9 kB',
  },
  temporalCpuMs: {
    amount: 57,
    what: 'CPU ms of a job in the Temporal server, on Postgres',
    words: '57 ms of CPU in Temporal',
  },
  bothPostgresCpuMs: {
    amount: 67,
    what: 'CPU ms of a job in Postgres, ours and Temporal’s together',
    words: '67 in Postgres (for both)',
  },
  shardWrites: {
    amount: 4.5,
    what: 'transactions of a job that its history shard writes one after the other',
    words: '4.5 transactions on its history shard',
  },
  temporalBytes: {
    amount: 74_000,
    what: 'bytes that a job leaves in the databases of Temporal (of which its list: 59,000)',
    words: '74 kB in Temporal’s databases',
  },
  postgresBytes: {
    amount: 14_000,
    what: 'bytes that a job leaves in our database',
    words: '14 kB in ours',
  },
} as const satisfies Record<string, Measured>;

/** Assumptions, to be replaced by your own figures. */
export const assumed = {
  busyShare: {
    amount: 0.6,
    what: 'share of a core that may be busy: what arrives at once must not queue for long',
  },
  processCores: { amount: 2, what: 'cores that one of our processes uses' },
  spareProcesses: { amount: 2, what: 'processes of a kind at least: one may be away' },
  temporalNodeCores: { amount: 8, what: 'cores of a node of Temporal' },
  poolConnections: {
    amount: 20,
    what: 'connections of one of our processes (DATABASE_POOL_MAX in Compose)',
  },
  temporalConnections: {
    amount: 120,
    what: 'connections of a node of Temporal: 20 and 10 of each of four services (its defaults)',
  },
  shardWriteMs: {
    amount: 10,
    what: 'ms of such a transaction: some ten statements and a commit, on a database across a network',
  },
  mediaBytes: { amount: 2_000_000, what: 'bytes of a result' },
  chatSeconds: { amount: 10, what: 'seconds of a streamed chat' },
  historyDays: { amount: 7, what: 'days that Temporal keeps histories (deploy/temporal)' },
  composeShards: {
    amount: 64,
    what: 'history shards of docker-compose.yml, fixed for the life of a cluster',
  },
  primaryCores: { amount: 64, what: 'cores of a large Postgres primary' },
  connectionsMax: { amount: 500, what: 'connections that such a primary serves well' },
  organizationJobs: {
    amount: 2500,
    what: 'jobs a second of one organization, whose moves wait for one row (a batch of 64 holds it for 5 ms)',
  },
  coreHourUsd: { amount: 0.05, what: 'USD of a core for an hour, with its memory' },
  diskMonthUsd: { amount: 0.12, what: 'USD of a gigabyte of a database’s disk for a month' },
  mediaMonthUsd: { amount: 0.023, what: 'USD of a gigabyte in an object store for a month' },
  jobUsd: {
    amount: 0.039,
    what: 'USD that a provider charges for an image (catalog/image-models.ts, nano-banana)',
  },
  chatUsd: { amount: 0.001, what: 'USD that a provider charges for a small chat' },
} as const satisfies Record<string, Figure>;
