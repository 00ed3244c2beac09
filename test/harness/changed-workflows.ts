/** The workflow bundle of a working tree that somebody has changed: the sources, copied and edited. */
import { randomUUID } from 'node:crypto';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflows } from '../../worker/bundle.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A change to a file of workflows/: what stands there, and what is to stand there. */
export interface SourceChange {
  file: string;
  from: string;
  to: string;
}

/** Bundles the workflows with some changes. @throws Error when there is nothing to change */
export async function bundleChanged(
  changes: SourceChange[],
  interceptors: string[] = [],
): Promise<{ code: string }> {
  // Below the project, so that the copy finds the same packages.
  const copy = join(root, '.cache', `changed-${randomUUID().slice(0, 8)}`);
  try {
    await mkdir(copy, { recursive: true });
    for (const folder of ['workflows', 'domain', 'jobs']) {
      await cp(join(root, folder), join(copy, folder), { recursive: true });
    }
    for (const { file, from, to } of changes) {
      const path = join(copy, 'workflows', file);
      const source = await readFile(path, 'utf8');
      if (!source.includes(from)) throw new Error(`${file} has no ${from}`);
      await writeFile(path, source.replace(from, to));
    }
    return await bundleWorkflows({
      workflowsPath: join(copy, 'workflows/index.ts'),
      interceptorPaths: interceptors,
    });
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}
