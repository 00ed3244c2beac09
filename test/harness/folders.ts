/** Folders of tests. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'vitest';

/** Creates an empty folder, which the test run removes at its end. */
export const newFolder = (): string => mkdtempSync(join(inject('directory'), 'test-'));
