/**
 * A batch of moves has the same effect as its moves one by one: the same results, rows and audit,
 * for all repeated moves, rejections, foreign ids and organizations in it.
 */
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { by, useLedger } from './use-ledger.ts';

const ledgers = useLedger();

type Move = Record<string, unknown> & { organizationId: string; id: string };

/**
 * Moves with ids below 4 are of organization 0, the others of organization 1, which has a window; some
 * name the other organization, or organization 2, which has no account.
 */
const named = fc
  .record({
    number: fc.nat(7),
    stray: fc.oneof({ weight: 8, arbitrary: fc.constant(null) }, fc.constantFrom(0, 1, 2)),
  })
  .map(({ number, stray }) => ({
    number,
    organizationId: `org_${stray ?? (number < 4 ? 0 : 1)}`,
  }));

/** Moves of Studio; even ids have a job. */
const studioMove = fc
  .record({
    named,
    verb: fc.constantFrom('reserve', 'reserve', 'settle', 'settle', 'refund', 'grant'),
    amount: fc.integer({ min: 15, max: 30 }),
    share: fc.constantFrom(0, 0.5, 0.5, 1.5),
    to: fc.constantFrom('charged', 'released'),
    taken: fc.boolean(),
  })
  .map(({ named: { number, organizationId }, taken, share, ...move }): Move => {
    const { verb, to } = move;
    const id = `job_${number}`;
    const head = { organizationId, id, verb };
    const isJob = number % 2 === 0;
    if (verb === 'grant') {
      return { ...head, amount: taken ? -move.amount : move.amount, ...by };
    }
    if (verb === 'refund') {
      const amount = taken ? null : Math.floor(share * move.amount);
      return { ...head, refundId: to, amount, ...by };
    }
    if (verb === 'reserve') {
      const job = {
        keyId: organizationId.replace('org', 'key'),
        type: 'imageGenerate',
        model: null,
        provider: 'fal',
        requestId: 'req_1',
        deadlineAt: '2026-12-01T00:00:00Z',
        request: { prompt: 'x' },
      };
      return { ...head, kind: 'studio', amount: move.amount, ttlMs: 60_000, ...(isJob && { job }) };
    }
    const completed = to === 'charged';
    const artifact = { storageKey: id, contentType: 'image/png', sizeBytes: 5, sha256: 'abc' };
    const job = {
      status: completed ? 'completed' : 'failed',
      outputs: completed ? [{ artifacts: [artifact] }] : null,
      error: completed ? null : { code: 'X', message: 'x' },
      artifacts: completed ? [artifact] : [],
    };
    return {
      ...head,
      to,
      amount: Math.floor(share * move.amount),
      reason: to,
      ...(isJob && { job }),
    };
  });

const chatMove = fc
  .record({
    named,
    verb: fc.constantFrom('reserve', 'settle'),
    amountMin: fc.integer({ min: 1, max: 40 }),
    amountMax: fc.integer({ min: 40, max: 50 }),
    amount: fc.nat(90),
    to: fc.constantFrom('charged', 'released'),
  })
  .map(({ named: { number, organizationId }, verb, ...move }): Move => {
    const { to } = move;
    const chat = {
      keyId: organizationId.replace('org', 'key'),
      model: 'm',
      provider: 'p',
      streamed: true,
      requestId: 'req_1',
    };
    const head = { organizationId, id: `chat_${number}`, verb, ttlMs: 60_000 };
    if (verb === 'reserve') {
      return { ...head, kind: 'chat', amountMin: move.amountMin, amountMax: move.amountMax, chat };
    }
    const tokens = { inputTokens: 1, outputTokens: 2, countedBy: 'provider' };
    return { ...head, to, amount: move.amount, reason: to, ...tokens };
  });

/**
 * Renames the ids in moves, so that each way to apply them has organizations of its own. Renamed ids
 * have the same order.
 */
const inWorld = (world: string, moves: readonly Move[]): Move[] =>
  JSON.parse(JSON.stringify(moves).replaceAll(/\b(org|key|job|chat)_(?=\d)/g, `$1_${world}_`));
const outOfWorld = (world: string, found: unknown): unknown =>
  JSON.parse(JSON.stringify(found).replaceAll(`_${world}_`, '_'));

async function makeWorld(world: string): Promise<void> {
  for (const [number, limit] of [null, 28].entries()) {
    const id = `org_${world}_${number}`;
    const key = `key_${world}_${number}`;
    await ledgers.query('INSERT INTO organization (id, name) VALUES ($1, $1)', [id]);
    const account =
      'INSERT INTO account (organization_id, window_limit, jobs_max) VALUES ($1, $2, $3)';
    await ledgers.query(account, [id, limit, number === 0 ? 2 : null]);
    await ledgers.query(
      `INSERT INTO app_user (id, organization_id, name, role) VALUES ($1, $1, 'm', 'owner')`,
      [id],
    );
    await ledgers.query(
      `INSERT INTO api_key (id, organization_id, user_id, name, prefix, mac, scopes, limit_micro, limit_per, jobs_max)
        VALUES ($1, $2, $2, 'k', 'p', decode(md5($1), 'hex'), '{}', $3, $4, $5)`,
      // The key of the first has limits.
      [key, id, ...(number === 0 ? [42, 'total', 1] : [null, null, null])],
    );
    await apply([{ verb: 'grant', organizationId: id, id: 'first', amount: 60, ...by }]);
  }
}

async function apply(moves: readonly Move[]): Promise<unknown[]> {
  const text = 'SELECT ledger_apply($1) AS answers';
  const [row] = await ledgers.query<{ answers: unknown[] }>(text, [JSON.stringify(moves)]);
  return row?.answers ?? [];
}

/** Sorts moves as `ledger_apply` sorts a batch. */
async function applyOneByOne(moves: readonly Move[]): Promise<unknown[]> {
  const answers: unknown[] = [];
  const order = (move: Move): string => `${move.organizationId} ${move.id}`;
  const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other));
  const ordered = [...moves.entries()].toSorted(([, one], [, other]) =>
    compare(order(one), order(other)),
  );
  for (const [position, move] of ordered) [answers[position]] = await apply([move]);
  return answers;
}

/** Reads all rows of a world, with the names that two worlds share, and without times. */
async function readWorld(world: string): Promise<unknown> {
  const rows: Record<string, unknown> = {};
  const tables = {
    account: 'SELECT * FROM account WHERE organization_id LIKE $1 ORDER BY organization_id',
    reservation: 'SELECT * FROM reservation WHERE organization_id LIKE $1 ORDER BY id',
    entries:
      'SELECT * FROM ledger_entry WHERE organization_id LIKE $1 ORDER BY organization_id, sequence',
    job: 'SELECT * FROM job WHERE organization_id LIKE $1 ORDER BY id',
    artifact: 'SELECT * FROM artifact WHERE organization_id LIKE $1 ORDER BY storage_key',
    spent: `SELECT * FROM budget_spend WHERE budget_id LIKE replace($1, 'org', 'key') ORDER BY 1, 2`,
  };
  for (const [table, text] of Object.entries(tables)) {
    rows[table] = await ledgers.query(text, [`org\\_${world}\\_%`]);
  }
  return withoutTimes(outOfWorld(world, rows));
}

const withoutTimes = (found: unknown): unknown =>
  JSON.parse(JSON.stringify(found).replaceAll(/"\d{4}-\d\d-\d\dT[^"]+"/g, '"a time"'));

let worlds = 0;

it.each([
  ['Studio', studioMove],
  ['chat', chatMove],
])('a batch of %s has the same effect as its moves one by one', async (subject, move) => {
  const seen = new Set<string>();
  const batch = fc.oneof(
    fc.array(move, { minLength: 8, maxLength: 24, size: 'max' }),
    // Each id once: moves of one id are decided one after the other.
    fc.uniqueArray(move, { selector: ({ id }) => id, minLength: 5, maxLength: 8 }),
  );
  const batches = fc.array(batch, { minLength: 1, maxLength: 6, size: 'max' });
  const property = fc.asyncProperty(batches, async (sequence) => {
    worlds += 1;
    const [whole, single] = [`a${worlds}`, `b${worlds}`];
    await makeWorld(whole);
    await makeWorld(single);
    for (const moves of sequence) {
      const together = withoutTimes(await apply(inWorld(whole, moves)));
      const alone = withoutTimes(await applyOneByOne(inWorld(single, moves)));
      expect(together).toEqual(alone);
      for (const word of JSON.stringify(together).matchAll(/"verdict":"(\w+)"/g)) {
        seen.add(word[1] ?? '');
      }
    }
    expect(await readWorld(whole)).toEqual(await readWorld(single));
    expect(await ledgers.database.audit()).toEqual([]);
  });
  const both = ['reserved', 'mismatch', 'no_account', 'settled'];
  const refusing = ['insufficient_credits', 'key_limit_exceeded'];
  const settling = ['already_settled', 'not_reserved'];
  const refunding = ['refunded', 'not_refundable'];
  const own =
    subject === 'Studio'
      ? ['granted', 'jobs_max_reached', 'window_exhausted', 'window_limit_exceeded', ...refunding]
      : [];
  const expected = [...both, ...refusing, ...settling, ...own].toSorted();
  // The seed is printed with a counterexample; SEED=… repeats it.
  const seed = process.env['SEED'] && { seed: Number(process.env['SEED']) };
  // A rare verdict may need more than one round.
  for (let rounds = 0; rounds < 10 && seen.size < expected.length; rounds += 1) {
    await fc.assert(property, { numRuns: 25, ...seed });
  }
  expect([...seen].toSorted()).toEqual(expected);
});

it('a batch counts the jobs that it opens and ends toward the limit of open jobs', async () => {
  await makeWorld('open');
  const reserve = (id: string): Move => ({
    verb: 'reserve',
    kind: 'studio',
    organizationId: 'org_open_0',
    id,
    amount: 1,
    ttlMs: 60_000,
  });
  const release = { verb: 'settle', to: 'released', reason: 'test', amount: 0 };
  const verdicts = async (moves: Move[]) =>
    (await apply(moves)).map((answer) => (answer as { verdict: string }).verdict);
  expect(await verdicts(['job_a', 'job_b', 'job_c'].map(reserve))).toEqual([
    'reserved',
    'reserved',
    'jobs_max_reached',
  ]);
  const ended = { ...release, organizationId: 'org_open_0', id: 'job_b' };
  expect(await verdicts([ended, reserve('job_c'), reserve('job_d')])).toEqual([
    'settled',
    'reserved',
    'jobs_max_reached',
  ]);
});

it('a batch decides each reservation by its own idempotency claim', async () => {
  await makeWorld('claims');
  const [organizationId, keyId] = ['org_claims_1', 'key_claims_1'];
  await ledgers.query(
    `INSERT INTO idempotency_claim (organization_id, idempotency_key, fingerprint, subject_id, holder)
       VALUES ($1, 'kept', 'f', 'chat_kept', 'a1'), ($1, 'lost', 'f', 'chat_other', 'a2')`,
    [organizationId],
  );
  const reserve = (id: string, claim?: { key: string; holder: string }): Move => ({
    verb: 'reserve',
    kind: 'chat',
    organizationId,
    id,
    amountMin: 10,
    amountMax: 10,
    ttlMs: 60_000,
    ...(claim && { claim }),
    chat: { keyId, model: 'm', provider: 'p', streamed: false, requestId: 'r' },
  });
  const moves = [
    reserve('chat_lost', { key: 'lost', holder: 'a3' }),
    reserve('chat_kept', { key: 'kept', holder: 'a1' }),
    reserve('chat_gone', { key: 'gone', holder: 'a4' }),
    reserve('chat_free'),
  ];
  const verdicts = ['claim_lost', 'reserved', 'claim_lost', 'reserved'];
  expect(await apply(moves)).toMatchObject(verdicts.map((verdict) => ({ verdict })));
  expect(await apply(moves.slice(0, 1))).toMatchObject([{ verdict: 'claim_lost' }]);
  const made = await ledgers.query(
    'SELECT id FROM reservation WHERE organization_id = $1 ORDER BY id',
    [organizationId],
  );
  expect(made).toEqual([{ id: 'chat_free' }, { id: 'chat_kept' }]);
});
