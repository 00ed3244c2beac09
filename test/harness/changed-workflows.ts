/** Builds a workflow bundle from a copy of the sources in which the test has replaced texts. */
import { randomUUID } from 'node:crypto';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflows } from '../../worker/bundle.ts';
import type { Step } from '../../workflows/steps.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A change to a file of workflows/: a text in the file, and its replacement. */
export interface SourceChange {
  file: string;
  from: string;
  to: string;
}

/** Code of an additional step that a change puts into the job workflow. */
export const additionalStep = `await runStep(job, ${JSON.stringify({
  name: 'markVerifying',
  summary: 'additional',
} satisfies Step)}, (activities) => activities.markVerifying(job.plan.jobId));`;

/** Bundles the workflows with these changes. @throws Error if a text is not in its file */
export async function bundleChanged(
  changes: SourceChange[],
  interceptors: string[] = [],
): Promise<{ code: string }> {
  // The copy is below the project so that it uses the same packages.
  const copy = join(root, '.cache', `changed-${randomUUID().slice(0, 8)}`);
  try {
    await mkdir(copy, { recursive: true });
    for (const folder of ['workflows', 'domain']) {
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
