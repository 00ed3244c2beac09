/** A spool file is not created again after its removal. */
import { pbkdf2 } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { openSpool, writeSpoolFile } from '../../storage/spool.ts';
import { newFolder } from '../harness/folders.ts';

it('a spool file exists when its source failed, and is not created again after its removal', async () => {
  const path = await (await openSpool(newFolder()))();
  // Threads open files; these keep all threads busy.
  const busy = Array.from({ length: 4 }, () => promisify(pbkdf2)('a', 'b', 200_000, 32, 'sha256'));
  async function* failing(): AsyncGenerator<Buffer> {
    await Promise.reject(new Error('rejected'));
    yield Buffer.alloc(1);
  }
  await expect(writeSpoolFile(path, failing)).rejects.toThrow('rejected');
  // `existsSync` does not wait for the busy threads.
  expect(existsSync(path)).toBe(true);
  await rm(path);
  await Promise.all(busy);
});
