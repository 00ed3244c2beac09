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
  'a job or chat is counted in another budget than that of its API key',
  'the status of a job contradicts its reservation',
  'a completed job has no artifact',
  'a job that was not charged has artifacts',
  'the outputs of a job differ from its artifacts',
  'the spending of a budget differs from its reservations and charges',
  'the sums of a closed day differ from its jobs and chats',
  'the sums of archived jobs and chats differ from the archive',
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
const pageRows = 5000;
/** Number of days of a budget that a statement checks. */
const budgetDays = 31;

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

class Audit {
  readonly #client: Client;
  readonly #share: number;
  readonly #signal: AbortSignal | undefined;
  readonly #findings: Finding[] = [];
  /** Organizations with a violation. The next audit checks their entries again. */
  readonly #violated = new Set<string | null>();
  #entries = 0;
  #reservations = 0;

  constructor(client: Client, { share = 1, signal }: AuditOptions) {
    this.#client = client;
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
    const days = new Map<string, { budget: string; day: string }>();
    const check = async (ids: string[]): Promise<void> => {
      await this.#checkReservations(ids);
      const changed = await this.#query<{ budget: string; day: string }>(
        `SELECT DISTINCT budget_id AS budget, (created_at AT TIME ZONE 'UTC')::date::text AS day
          FROM reservation WHERE id = ANY ($1) AND budget_id IS NOT NULL`,
        [ids],
      );
      for (const one of changed) days.set(`${one.budget} ${one.day}`, one);
    };
    const ends = new Map<string, Checked>();
    for (const { id, checked } of accounts) {
      ends.set(id, await this.#checkEntries(id, checked, check));
    }
    const open = await this.#query<{ id: string }>(
      `SELECT id FROM reservation WHERE state = 'reserved'`,
    );
    await check(open.map(({ id }) => id));
    for (const { budget, day } of days.values()) {
      await this.#collect('SELECT * FROM audit_budget($1, $2, $2)', [budget, day]);
    }
    await this.#collect('SELECT * FROM audit_accounts($1)', [[...ends.keys()]]);
    await this.#collect('SELECT * FROM audit_open()');
    await this.#client.query('COMMIT');
    return this.#end(ends);
  }

  async checkAll(): Promise<Violations> {
    const ends = new Map<string, Checked>();
    await this.#forPages('SELECT organization_id AS id FROM account', async (accountIds) => {
      for (const id of accountIds) {
        const [end] = await this.#query<{ checked: Checked }>('SELECT archive_end($1) AS checked', [
          id,
        ]);
        assert(end, 'archive_end returns one row');
        ends.set(id, await this.#checkEntries(id, end.checked));
        await this.#checkUsage(id);
        await this.#collect('SELECT * FROM audit_archive($1)', [id]);
      }
    });
    await this.#forPages('SELECT id FROM reservation', (ids) => this.#checkReservations(ids));
    const budgets =
      'SELECT budget_id AS id FROM budget_spend UNION SELECT coalesce(budget_of, id) FROM api_key';
    await this.#forPages(budgets, async (budgetIds) => {
      for (const id of budgetIds) await this.#checkBudget(id);
    });
    await this.#collect('SELECT * FROM audit_accounts(NULL)');
    await this.#collect('SELECT * FROM audit_open()');
    return this.#end(ends);
  }

  /**
   * Checks the ledger entries of an account behind `checked`, and the account's totals. `check`
   * receives the ids of their reservations.
   */
  async #checkEntries(
    accountId: string,
    checked: Checked,
    check?: (reservationIds: string[]) => Promise<void>,
  ): Promise<Checked> {
    for (;;) {
      const [page] = await this.#query<EntryPage>('SELECT * FROM audit_entries($1, $2, $3)', [
        accountId,
        checked,
        pageRows,
      ]);
      assert(page, 'audit_entries returns one row');
      this.#add(page.findings.map((found) => ({ ...found, organization_id: accountId })));
      this.#entries += page.checked.sequence - checked.sequence;
      await check?.(page.reservation_ids);
      if (page.is_last) return page.checked;
      checked = page.checked;
    }
  }

  async #checkReservations(ids: string[]): Promise<void> {
    this.#reservations += ids.length;
    await this.#collect('SELECT * FROM audit_reservations($1)', [ids]);
  }

  /** Checks all days of a budget, a limited number of them in each statement. */
  async #checkBudget(id: string): Promise<void> {
    const ranges = await this.#query<{ starts: string; ends: string }>(
      `WITH bound AS (SELECT generate_series(min(day), max(day), $2 * interval '1 day')::date AS day
          FROM budget_spend WHERE budget_id = $1 UNION SELECT 'infinity')
        SELECT coalesce(lag(day) OVER w + 1, '-infinity')::text AS starts, day::text AS ends
        FROM bound WINDOW w AS (ORDER BY day)`,
      [id, budgetDays],
    );
    for (const { starts, ends } of ranges) {
      await this.#collect('SELECT * FROM audit_budget($1, $2, $3)', [id, starts, ends]);
    }
  }

  /** Checks the sums of the closed days of an account, one day in each statement. */
  async #checkUsage(accountId: string): Promise<void> {
    const closed = await this.#query<{ day: string }>(
      'SELECT day::text FROM usage_closed_day WHERE organization_id = $1 AND NOT stale ORDER BY day',
      [accountId],
    );
    for (const { day } of closed) {
      await this.#collect('SELECT * FROM audit_usage($1, $2)', [accountId, day]);
    }
  }

  /** Runs `check` for each page of the ids that a statement selects. */
  async #forPages(select: string, check: (ids: string[]) => Promise<void>): Promise<void> {
    for (let last = ''; ;) {
      const rows = await this.#query<{ id: string }>(
        `SELECT id FROM (${select}) AS x WHERE id > $1 ORDER BY id LIMIT $2`,
        [last, pageRows],
      );
      await check(rows.map(({ id }) => id));
      last = rows.at(-1)?.id ?? '';
      if (rows.length < pageRows) return;
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
