/** Tables of docs/scaling.md. */
import { assumed, measured } from './measured.ts';
import { limits, needOf, type Load, type Need } from './loads.ts';

/** Loads of the page. */
export const loads: readonly Load[] = [
  { name: '10 jobs/s', jobs: 10, providerSeconds: 4, chats: 0 },
  { name: '100 jobs/s', jobs: 100, providerSeconds: 4, chats: 0 },
  { name: '1,000 jobs/s', jobs: 1000, providerSeconds: 4, chats: 0 },
  { name: '100 jobs/s of 60 s', jobs: 100, providerSeconds: 60, chats: 0 },
  { name: '1 million chats/h', jobs: 0, providerSeconds: 4, chats: 1_000_000 / 3600 },
];

const whole = (amount: number): string => Math.ceil(amount).toLocaleString('en-US');

/** Formats a number; small ones with one decimal. */
function one(amount: number): string {
  if (amount === 0) return '–';
  if (amount < 0.1) return '< 0.1';
  return amount < 10 ? amount.toFixed(1) : whole(amount);
}

const daySeconds = 86_400;

/** Formats bytes with a unit. */
function size(bytes: number): string {
  if (bytes === 0) return '–';
  const [unit, step] = bytes >= 1e12 ? (['TB', 1e12] as const) : (['GB', 1e9] as const);
  return `${one(bytes / step)} ${unit}`;
}

/** Formats the cost of a million jobs or chats, from the cost per day. */
function perMillion(usdPerDay: number, { jobs, chats }: Load): string {
  return `${one((usdPerDay / ((jobs + chats) * daySeconds)) * 1e6)} USD`;
}

const rows: readonly [string, (need: Need, load: Load) => string][] = [
  ['under way at any moment', (n) => whole(n.jobsInFlight + n.chatsInFlight)],
  ['API processes (2 cores each)', (n) => whole(n.apis)],
  ['worker processes (2 cores each)', (n, { jobs }) => (jobs === 0 ? '–' : whole(n.workers))],
  ['Temporal server, cores', (n) => one(n.temporalCores)],
  ['history shards', (n, { jobs }) => (jobs === 0 ? '–' : whole(n.shards))],
  ['Postgres, ours and Temporal’s, cores', (n) => one(n.postgresCores)],
  ['connections to Postgres', (n) => whole(n.connections)],
  ['media, in and out, Gbit/s each', (n) => one((n.mediaBytesPerSecond * 8) / 1e9)],
  ['media kept, a day', (n) => size(n.mediaBytesPerDay)],
  ['our database, a day', (n) => size(n.postgresBytesPerDay)],
  ['Temporal’s database, in all', (n) => size(n.temporalBytes)],
  ['machines, per million', (n, l) => perMillion(n.machinesUsdPerDay, l)],
  [
    'disks and a month of media, per million',
    (n, l) => perMillion(n.diskUsdPerDay + n.mediaUsdPerDay, l),
  ],
  ['what providers charge, per million', (n, l) => perMillion(n.providersUsdPerDay, l)],
];

function table(lines: readonly (readonly string[])[]): string {
  const [head = [], ...rest] = lines.map((cells) => `| ${cells.join(' | ')} |`);
  const rule = `|${' --- |'.repeat(lines[0]?.length ?? 0)}`;
  return [head, rule, ...rest].join('\n');
}

/** Makes the table of the resources of each load. */
function needs(given: readonly Load[]): string {
  const worked = given.map((load) => ({ load, need: needOf(load) }));
  return table([
    ['', ...given.map(({ name }) => name)],
    ...rows.map(([name, cell]) => [name, ...worked.map(({ load, need }) => cell(need, load))]),
  ]);
}

/** Makes the table of the constants. */
export function renderConstants(): string {
  const lines = [...Object.values(measured), ...Object.values(assumed)];
  return table([
    ['constant', 'amount', ''],
    ...lines.map((figure) => [
      figure.what,
      figure.amount.toLocaleString('en-US'),
      'words' in figure ? 'measured' : 'assumed',
    ]),
  ]);
}

/** Makes the tables, for the page or for a given load. */
export function renderPage(given: readonly Load[] = loads): string {
  return [
    '**What a load needs**',
    needs(given),
    '**What ends first**',
    table([
      ['ends', 'jobs/s', 'then'],
      ...limits().map(({ resource, jobs, remedy }) => [resource, whole(jobs), remedy]),
    ]),
  ].join('\n\n');
}
