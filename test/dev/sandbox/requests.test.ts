/** The store of requests stays bounded, in memory and on disk. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { platformFailure } from '../../../dev/sandbox/fal/outcome.ts';
import { RequestStore } from '../../../dev/sandbox/fal/requests.ts';
import { newFolder } from '../../harness/folders.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = newFolder();
});

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

it('the store ends a request once, and reads its requests after a restart', async () => {
  const store = await RequestStore.open({ dataDir, fsync: true });
  const first = await store.accept(accepted('first'));
  expect(await store.finish(first, platformFailure(500))).toBe(true);
  expect(await store.finish(first, platformFailure(499))).toBe(false);
  await store.close();
  const again = await RequestStore.open({ dataDir, fsync: true });
  expect(again.get('first')?.outcome?.status).toBe(500);
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
