/** The store of requests stays bounded, in memory and on disk. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { platformFailure } from '../../dev/sandbox/fal/outcome.ts';
import { RequestStore } from '../../dev/sandbox/fal/requests.ts';

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'sandbox-'));
});
afterEach(async () => rm(dataDir, { recursive: true, force: true }));

const accepted = (requestId: string) => ({
  requestId,
  gatewayRequestId: requestId,
  endpointId: 'fal-ai/nano-banana',
  body: { prompt: requestId },
  webhookUrl: null,
  acceptedAtMs: 1,
  latencyMs: 1,
  faults: [],
});

it('the store keeps the newest finished requests and all unfinished ones', async () => {
  const store = await RequestStore.open({ dataDir, fsync: false, finishedMax: 2 });
  await store.accept(accepted('unfinished'));
  for (const id of ['a', 'b', 'c', 'd']) {
    await store.finish(await store.accept(accepted(id)), platformFailure(500));
  }
  expect([...store.all()].map(({ requestId }) => requestId)).toEqual(['unfinished', 'c', 'd']);
  await store.close();
});

it('the store handles concurrent appends, and ends a request once', async () => {
  const store = await RequestStore.open({ dataDir, fsync: true });
  const ids = Array.from({ length: 200 }, (_, index) => `r${index}`);
  const requests = await Promise.all(ids.map(async (id) => store.accept(accepted(id))));
  const [first] = requests;
  if (!first) throw new Error('200 requests were accepted');
  const ends = [
    store.finish(first, platformFailure(500)),
    store.finish(first, platformFailure(499)),
  ];
  expect(await Promise.all(ends)).toEqual([true, false]);
  await store.close();
  const again = await RequestStore.open({ dataDir, fsync: true });
  expect([...again.all()].map(({ requestId }) => requestId)).toEqual(ids);
  expect(again.get('r0')?.outcome?.status).toBe(500);
  await again.close();
});

it('the store rewrites a log that contains mostly deleted requests', async () => {
  const path = join(dataDir, 'fal-requests.jsonl');
  const kept = JSON.stringify({ type: 'accepted', request: accepted('kept') });
  const forgotten = JSON.stringify({ type: 'notified', requestId: 'forgotten' });
  await writeFile(path, `${kept}\n${`${forgotten}\n`.repeat(11_000)}`);
  const store = await RequestStore.open({ dataDir, fsync: false });
  await store.accept(accepted('next'));
  await store.close();
  const lines = (await readFile(path, 'utf8')).trim().split('\n');
  expect(lines).toHaveLength(2);
  expect(lines[0]).toContain('kept');
});
