/** The search of jobs by ids and prompts in a long history. */
import { expect, it } from 'vitest';
import { createJobOverview, createJobReads } from '../../studio/jobs/job-reads.ts';
import { useHistory } from '../ledger/use-history.ts';

const { database, organizationId } = useHistory({ jobs: 4000, chats: 10, days: 100 });

interface Row {
  id: string;
  text: string;
  request: Record<string, string>;
  type: string;
  status: string;
}
const readAll = () =>
  database.query<Row>(`SELECT id, request, type, status, lower(concat_ws(' ', request->>'prompt', request->>'text',
    request->>'title', request->'inputs')) AS text FROM job ORDER BY id DESC`);

it('finds the newest jobs with a text wherever it is, for callers and operators, with filters and pages', async () => {
  const rare = async (age: number, change: string) =>
    database.query(
      `UPDATE job SET request = ${change} WHERE id = (SELECT id FROM job ORDER BY id DESC LIMIT 1 OFFSET ${age})`,
    );
  await rare(3999, `request || '{"prompt": "The OLDEST walrus, 100% grey_ish \\\\"}'`);
  await rare(3500, `'{"text": "Walrus in a text", "title": "漢字で書く"}'`);
  await rare(2500, `'{"inputs": {"a": "walrus of a pipeline", "b": "zq"}}'`);
  const all = await readAll();
  const some = all.filter((_, index) => index % 500 === 7);
  const texts = [
    'walrus',
    'OLDEST walrus',
    '100% grey_ish \\',
    '0%',
    '__',
    'zq',
    '漢字で書',
    'red',
    'campaign 17',
  ]
    .concat('misty forest', 'at dawn, number', 'wooden', '"a": "walrus', 'nothing of this kind')
    .concat(some.map(({ request }) => (request['prompt'] ?? '').slice(10, 45)));
  const reads = createJobReads(database.pool);
  const overview = createJobOverview(database.pool);
  for (const search of texts) {
    for (const filter of [
      {},
      { type: 'image/edit', beforeId: all[1200]?.id },
      { status: 'failed' as const },
    ]) {
      const expected = all
        .filter(
          ({ id, text, type, status }) =>
            text.includes(search.toLowerCase()) &&
            type === (filter.type ?? type) &&
            status === (filter.status ?? status) &&
            id < (filter.beforeId ?? 'k'),
        )
        .map(({ id }) => id)
        .slice(0, 20);
      const listing = { search, limit: 20, ...filter };
      for (const found of [
        await reads.list(organizationId, listing),
        await overview.list(listing),
      ]) {
        expect([search, filter, found.map(({ id }) => id)]).toEqual([search, filter, expected]);
      }
    }
    const matches = all.filter(({ text }) => text.includes(search.toLowerCase())).length;
    expect(await reads.count(organizationId, { search }, 100)).toEqual({
      count: Math.min(matches, 100),
      complete: matches <= 100,
    });
  }
});

it('finds an old job by each of its ids, and none of another organization', async () => {
  const { id = '' } = (await readAll()).at(-1) ?? {};
  const [{ request_id: requestId = '' } = {}] = await database.query<{ request_id?: string }>(
    `SELECT request_id FROM job WHERE id = '${id}'`,
  );
  const reads = createJobReads(database.pool);
  const find = async (owner: string, search: string) =>
    (await reads.list(owner, { search, limit: 200 })).map((job) => job.id);
  for (const search of [id, id.slice(4, 36), id.slice(8), requestId]) {
    expect(await find(organizationId, search)).toEqual([id]);
    expect(await find('org_other', search)).toEqual([]);
  }
  expect(await find(organizationId, id.slice(-6))).toContain(id);
  expect(await find(organizationId, id.slice(-5))).toEqual([]);
});
