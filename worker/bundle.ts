/**
 * The workflow bundle: built once per state of the sources and kept in `.cache/`, so that a process
 * that starts again does not pay the second that webpack takes.
 */
import { createHash } from 'node:crypto';
import { glob, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { failureConverterPath } from '../platform/payload-codec.ts';

const root = new URL('../', import.meta.url);
const cache = new URL('.cache/', root);

/** All files whose change can change the bundle: workflows, what they may import values of, the SDK. */
const inputs = [
  'workflows/**/*.ts',
  'domain/**/*.ts',
  'jobs/**/*.ts',
  'platform/failure-converter.ts',
  'package-lock.json',
  // How it is made.
  'worker/bundle.ts',
];

/** How a bundle is made. */
interface BundleOptions {
  /** Whether messages of failures become payloads (platform/failure-converter.ts). */
  encodeFailures: boolean;
}

/** What a bundle is made of that is not the working tree's own. */
interface BundleSources {
  /** The file that exports the workflows. */
  workflowsPath?: string;
  /** Interceptors beside our own. */
  interceptorPaths?: string[];
}

/** The code of the bundle, from the cache when its inputs are unchanged. */
export async function loadWorkflowBundle(
  options: BundleOptions = { encodeFailures: false },
): Promise<{ code: string }> {
  const hash = createHash('sha256');
  const files: string[] = [];
  for await (const file of glob(inputs, { cwd: fileURLToPath(root) })) files.push(file);
  for (const file of files.toSorted()) {
    // The order of the files is part of the hash.
    hash.update(`${file}\n`).update(await readFile(new URL(file, root)));
  }
  const kind = options.encodeFailures ? 'sealed' : 'plain';
  const name = `workflow-bundle-${kind}-${hash.digest('hex').slice(0, 16)}.js`;
  const path = new URL(name, cache);
  try {
    return { code: await readFile(path, 'utf8') };
  } catch {
    return build(path, options);
  }
}

/** Bundles workflows and what they import. */
export async function bundleWorkflows(
  { workflowsPath, interceptorPaths = [] }: BundleSources = {},
  options: BundleOptions = { encodeFailures: false },
): Promise<{ code: string }> {
  const workflows = workflowsPath ?? fileURLToPath(new URL('workflows/index.ts', root));
  // The first is asked first: with the stack of whoever asked.
  const interceptors = [
    ...interceptorPaths,
    fileURLToPath(new URL('workflows/request-context.ts', root)),
  ];
  const { code } = await bundleWorkflowCode({
    workflowsPath: workflows,
    workflowInterceptorModules: interceptors,
    // Evaluated once per process instead of once per workflow: no module of ours keeps anything.
    preloadModules: [workflows, ...interceptors],
    ...(options.encodeFailures && { failureConverterPath }),
    logger: new DefaultLogger('WARN'),
  });
  return { code };
}

async function build(path: URL, options: BundleOptions): Promise<{ code: string }> {
  const { code } = await bundleWorkflows({}, options);
  await mkdir(cache, { recursive: true });
  // Several processes may build at once: each renames a whole file into place.
  const draft = new URL(`${path.href}.${process.pid}`);
  await writeFile(draft, code);
  await rename(draft, path);
  return { code };
}
