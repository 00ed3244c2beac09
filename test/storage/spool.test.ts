/** A spool file is not created again after its removal. */
import { pbkdf2 } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { openSpool, writeSpoolFile } from '../../storage/spool.ts';

it('a spool file exists when its source failed, and is not created again after its removal', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'spool-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const path = await (await openSpool(directory))();
  // Files are opened by threads, which have something else to do first.
  const busy = Array.from({ length: 4 }, () => promisify(pbkdf2)('a', 'b', 200_000, 32, 'sha256'));
  async function* failing(): AsyncGenerator<Buffer> {
    await Promise.reject(new Error('refused'));
    yield Buffer.alloc(1);
  }
  await expect(writeSpoolFile(path, failing)).rejects.toThrow('refused');
  // Looked at by this thread, not after what the others have to do.
  expect(existsSync(path)).toBe(true);
  await rm(path);
  await Promise.all(busy);
});
