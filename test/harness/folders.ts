/** Folders of tests. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'vitest';
import { openLocalDisk, type LocalDisk } from '../../storage/local-disk.ts';

/** Creates an empty folder, which the test run removes at its end. */
export const newFolder = (): string => mkdtempSync(join(inject('directory'), 'test-'));

/** Opens a storage in a folder. */
export const openTestDisk = (directory = newFolder()): Promise<LocalDisk> =>
  openLocalDisk({
    directory,
    secret: 'a secret of thirty-two characters or more',
    publicBaseUrl: 'http://127.0.0.1:4000',
  });
