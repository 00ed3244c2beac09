/** Finds rows that violate an invariant of credits or results (audit.sql). */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { assert } from '../domain/errors.ts';
import { parseDatabaseUrl } from '../platform/database-url.ts';

/** Violation: the name of an invariant, and the id of the row that violates it. */
export interface Finding {
  finding: string;
  subject: string;
}

/** Names of all invariants. A report also lists invariants without violations. */
export const invariantNames: readonly string[] = [
  'the totals of an account differ from its ledger entries',
  'the totals of a ledger entry do not follow from the previous entry',
  'something other than a charge made a balance negative',
  'a ledger entry has no reservation',
  'a reservation does not have exactly one reserve entry',
  'a reservation was settled more than once',
  'a reservation differs from its charge or release entry',
  'the refunds of a reservation differ from its refund entries',
  'a charge has another price than its reservation',
  'a charge differs from its quantity and its price',
  'a job or chat is counted in other budgets than those of its API key and end user',
  'the status of a job contradicts its reservation',
  'a completed job has no artifact',
  'a job that was not charged has artifacts',
  'the outputs of a job differ from its artifacts',
  'the spending of a budget differs from its reservations and charges',
  'the spending of a browser token differs from its reservations',
  'the sums of a closed day differ from its jobs and chats',
  'the sums of archived jobs and chats differ from the archive',
  'the sums of booked days differ from the ledger entries',
  'the reserved credits of an account differ from its open reservations',
  'the use of a six-hour window differs from its reservations',
  'an open Studio reservation has no open job',
  'an open reservation has waited too long for the sweeper',
];

/**
 * Rows that an audit checks. `changes`: the ledger entries behind the last entries that an audit
 * found right, their reservations, and all open reservations. `all`: every row, so also rows that
 * were changed by hand.
 */
export type AuditScope = 'changes' | 'all';

export interface AuditOptions {
  scope: AuditScope;
  /** Share of one database connection's time that the audit uses; 1 by default. */
  share?: number;
  /** Ends the audit with an error. */
  signal?: AbortSignal;
}

/** Violations, and the numbers of checked ledger entries and reservations. */
export interface Violations {
  findings: Finding[];
  entries: number;
  reservations: number;
}

/** Time limit of a statement in milliseconds; each reads a limited number of rows. */
const timeoutMs = 60_000;
/** Number of ledger entries or reservations that a statement checks. */
const pageRows = 10_000;
/** Number of changed days of accounts that a statement checks. */
const daysPerStatement = 100;
/** Number of days that the first statement of an account checks; the next one takes about `daysMs`. */
const firstDays = 1;
/** Intended duration in milliseconds of a statement that checks days of an account. */
const daysMs = 100;

/** Last checked ledger entry of an account, as audit.sql describes it. */
interface Checked {
  sequence: number;
  posted: number;
  reserved: number;
  postedAfter: number;
  reservedAfter: number;
}

interface OwnedFinding extends Finding {
  organization_id: string | null;
}
interface Account {
  id: string;
  /** Last entry that an audit found right, or the last archived one. */
  checked: Checked;
}
interface Day {
  account: string;
  day: string;
}
interface EntryPage {
  checked: Checked;
  is_last: boolean;
  reservation_ids: string[];
  findings: Finding[];
}

/**
 * Returns the violations in the rows of a scope. Uses its own connection. An audit of the changes
 * reads one snapshot, and records up to which entries each account is right. An audit of all rows
 * has a snapshot for each page, so that it does not keep Postgres from removing old row versions.
 * @throws the errors of the database, or the signal's reason
 */
export async function findViolations(
  databaseUrl: string,
  options: AuditOptions,
): Promise<Violations> {
  const client = new Client({
    ...parseDatabaseUrl(databaseUrl),
    connectionTimeoutMillis: 5000,
    statement_timeout: timeoutMs,
    query_timeout: timeoutMs,
  });
  // Without this listener, an error of the idle connection would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    const audit = new Audit(client, options);
    return await (options.scope === 'all' ? audit.checkAll() : audit.checkChanges());
  } finally {
    await client.end();
  }
}

const dayMs = 86_400_000;
/** Returns the UTC date of a time as YYYY-MM-DD. */
const toDate = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

class Audit {
  readonly #client: Client;
  readonly #scope: AuditScope;
  readonly #share: number;
  readonly #signal: AbortSignal | undefined;
  readonly #findings: Finding[] = [];
  /** Organizations with a violation. The next audit checks their entries again. */
  readonly #violated = new Set<string | null>();
  #entries = 0;
  #reservations = 0;

  constructor(client: Client, { scope, share = 1, signal }: AuditOptions) {
    this.#client = client;
    this.#scope = scope;
    this.#share = share;
    this.#signal = signal;
  }

  async checkChanges(): Promise<Violations> {
    await this.#client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const accounts = await this.#query<Account>(`
      SELECT a.organization_id AS id, CASE WHEN c.sequence IS NOT NULL THEN jsonb_build_object(
        'sequence', c.sequence, 'posted', c.posted, 'reserved', c.reserved,
        'postedAfter', c.posted, 'reservedAfter', c.reserved) ELSE archive_end(a.organization_id) END AS checked
      FROM account a LEFT JOIN audit_checkpoint c USING (organization_id)
      WHERE (a.sequence, a.posted, a.reserved) IS DISTINCT FROM (c.sequence, c.posted, c.reserved)`);
    const days = new Map<string, Day>();
    const check = async (ids: string[]): Promise<void> => {
      this.#reservations += ids.length;
      await this.#collect('SELECT * FROM audit_reservations($1, NULL, NULL)', [ids]);
      const changed = await this.#query<Day>(
        `SELECT DISTINCT organization_id AS account, (created_at AT TIME ZONE 'UTC')::date::text AS day
          FROM reservation WHERE id = ANY ($1)`,
        [ids],
      );
      for (const one of changed) days.set(`${one.account} ${one.day}`, one);
    };
    const ends = new Map<string, Checked>();
    for (const { id, checked } of accounts) {
      ends.set(id, await this.#checkEntries(id, checked, check));
    }
    const open = await this.#query<{ id: string }>(
      `SELECT id FROM reservation WHERE state = 'reserved'`,
    );
    await check(open.map(({ id }) => id));
    const changedDays = [...days.values()];
    for (let start = 0; start < changedDays.length; start += daysPerStatement) {
      const some = changedDays.slice(start, start + daysPerStatement);
      await this.#collect(
        `SELECT f.* FROM unnest($1::text[], $2::date[]) AS changed (account_id, day),
          LATERAL audit_days(changed.account_id, changed.day, changed.day) AS f`,
        [some.map(({ account }) => account), some.map(({ day }) => day)],
      );
    }
    await this.#collect('SELECT * FROM audit_accounts($1)', [[...ends.keys()]]);
    await this.#collect('SELECT * FROM audit_open()');
    await this.#client.query('COMMIT');
    return this.#end(ends);
  }

  async checkAll(): Promise<Violations> {
    const ends = new Map<string, Checked>();
    let lastReservation = '';
    const seen = (ids: string[]): void => {
      for (const id of ids) if (id > lastReservation) lastReservation = id;
    };
    for (let last: string | undefined = ''; last !== undefined;) {
      const accounts: (Account & { first_day: string | null; last_day: string | null })[] =
        await this.#query(
          `SELECT a.organization_id AS id, archive_end(a.organization_id) AS checked, d.first_day::text, d.last_day::text
            FROM account a, LATERAL audited_days(a.organization_id) AS d
            WHERE a.organization_id > $1 ORDER BY 1 LIMIT 500`,
          [last],
        );
      for (const { id, checked, first_day: first, last_day: lastDay } of accounts) {
        ends.set(id, await this.#checkEntries(id, checked, seen));
        if (first !== null && lastDay !== null) await this.#checkDays(id, first, lastDay);
      }
      const ids = accounts.map(({ id }) => id);
      await this.#collect(
        'SELECT f.* FROM unnest($1::text[]) AS id, LATERAL audit_archive(id) AS f',
        [ids],
      );
      last = ids.at(-1);
    }
    await this.#checkReservations(lastReservation);
    await this.#collect('SELECT * FROM audit_accounts(NULL)');
    await this.#collect('SELECT * FROM audit_open()');
    return this.#end(ends);
  }

  /**
   * Checks the ledger entries of an account behind `checked`, and the account's totals. `check`
   * receives the ids of their reservations; in an audit of all rows, only the highest of them.
   */
  async #checkEntries(
    accountId: string,
    checked: Checked,
    check: (reservationIds: string[]) => Promise<void> | void,
  ): Promise<Checked> {
    for (;;) {
      const [page] = await this.#query<EntryPage>('SELECT * FROM audit_entries($1, $2, $3, $4)', [
        accountId,
        checked,
        pageRows,
        this.#scope === 'changes',
      ]);
      assert(page, 'audit_entries returns one row');
      this.#add(page.findings.map((found) => ({ ...found, organization_id: accountId })));
      this.#entries += page.checked.sequence - checked.sequence;
      await check(page.reservation_ids);
      if (page.is_last) return page.checked;
      checked = page.checked;
    }
  }

  /**
   * Checks all reservations in the order of their ids, and the ledger entries that have no
   * reservation. `lastOfEntries` is the highest reservation id of all entries.
   */
  async #checkReservations(lastOfEntries: string): Promise<void> {
    for (let after = '', isLast = false; !isLast;) {
      const [page] = await this.#query<{ upto: string; count: number }>(
        `SELECT CASE WHEN count(*) < $2 THEN greatest(max(id), $3) ELSE max(id) END AS upto, count(*)::integer AS count
          FROM (SELECT id FROM reservation WHERE id > $1 ORDER BY id LIMIT $2) AS page`,
        [after, pageRows, lastOfEntries],
      );
      assert(page, 'an aggregate returns one row');
      const { upto, count } = page;
      await this.#collect('SELECT * FROM audit_reservations(NULL, $1, $2)', [after, upto]);
      this.#reservations += count;
      isLast = count < pageRows;
      after = upto;
    }
  }

  /** Checks days of an account, as many in each statement as it can check in about `daysMs`. */
  async #checkDays(accountId: string, firstDay: string, lastDay: string): Promise<void> {
    const end = Date.parse(lastDay);
    let days = firstDays;
    for (let start = Date.parse(firstDay); start <= end;) {
      const last = Math.min(start + (days - 1) * dayMs, end);
      const startedAt = performance.now();
      await this.#collect('SELECT * FROM audit_days($1, $2, $3)', [
        accountId,
        toDate(start),
        toDate(last),
      ]);
      const tookMs = (performance.now() - startedAt) * this.#share;
      days = Math.max(1, Math.min(4 * days, Math.floor((days * daysMs) / tookMs)));
      start = last + dayMs;
    }
  }

  async #collect(text: string, values: unknown[] = []): Promise<void> {
    this.#add(await this.#query<OwnedFinding>(text, values));
  }

  #add(found: readonly OwnedFinding[]): void {
    for (const { finding, subject, organization_id: owner } of found) {
      this.#findings.push({ finding, subject });
      this.#violated.add(owner);
    }
  }

  /** Runs a statement, and then leaves the database to others for the rest of its share. */
  async #query<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    this.#signal?.throwIfAborted();
    const startedAt = performance.now();
    const { rows } = await this.#client.query<Row>(text, values);
    const pauseMs = (performance.now() - startedAt) * (1 / this.#share - 1);
    if (pauseMs >= 1) await delay(pauseMs, undefined, { signal: this.#signal });
    return rows;
  }

  /** Records up to which entries the accounts without violations are right. */
  async #end(ends: ReadonlyMap<string, Checked>): Promise<Violations> {
    const right = [...ends].filter(([id]) => !this.#violated.has(id));
    const column = (name: keyof Checked): number[] => right.map(([, end]) => end[name]);
    await this.#client.query(
      `INSERT INTO audit_checkpoint (organization_id, sequence, posted, reserved)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
        ON CONFLICT (organization_id) DO UPDATE SET sequence = excluded.sequence, posted = excluded.posted,
          reserved = excluded.reserved, audited_at = clock_timestamp()`,
      [right.map(([id]) => id), column('sequence'), column('posted'), column('reserved')],
    );
    return { findings: this.#findings, entries: this.#entries, reservations: this.#reservations };
  }
}
