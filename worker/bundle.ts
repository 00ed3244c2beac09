/**
 * Builds the workflow bundle, and caches it in `.cache/` until its sources change. This saves the
 * second that webpack takes at every start.
 */
import { createHash } from 'node:crypto';
import { glob, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { failureConverterPath } from '../platform/payload-codec.ts';

const root = new URL('../', import.meta.url);
const cache = new URL('.cache/', root);

/**
 * Files that determine the bundle: the workflows, the modules that they import, and the versions of
 * the packages.
 */
const inputs = [
  'workflows/**/*.ts',
  'domain/**/*.ts',
  'jobs/**/*.ts',
  'platform/failure-converter.ts',
  'package-lock.json',
  // This file determines how the bundle is built.
  'worker/bundle.ts',
];

/** Options of a bundle. */
interface BundleOptions {
  /** True if failure messages are encoded as payloads (platform/failure-converter.ts). */
  encodeFailures: boolean;
}

/** Replacements for the default sources of a bundle. */
interface BundleSources {
  /** File that exports the workflows. */
  workflowsPath?: string;
  /** Interceptor modules that run before the gateway's own. */
  interceptorPaths?: string[];
}

/** Returns the code of the bundle, from the cache if its sources have not changed. */
export async function loadWorkflowBundle(
  options: BundleOptions = { encodeFailures: false },
): Promise<{ code: string }> {
  const hash = createHash('sha256');
  const files: string[] = [];
  for await (const file of glob(inputs, { cwd: fileURLToPath(root) })) files.push(file);
  for (const file of files.toSorted()) {
    // The files are sorted, because their order changes the hash.
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

/** Bundles the workflows and the modules that they import. */
export async function bundleWorkflows(
  { workflowsPath, interceptorPaths = [] }: BundleSources = {},
  options: BundleOptions = { encodeFailures: false },
): Promise<{ code: string }> {
  const workflows = workflowsPath ?? fileURLToPath(new URL('workflows/index.ts', root));
  // Interceptors run in this order.
  const interceptors = [
    ...interceptorPaths,
    fileURLToPath(new URL('workflows/request-context.ts', root)),
  ];
  const { code } = await bundleWorkflowCode({
    workflowsPath: workflows,
    workflowInterceptorModules: interceptors,
    // These modules are evaluated once per process, not once per workflow, which is safe because
    // they have no module state.
    preloadModules: [workflows, ...interceptors],
    ...(options.encodeFailures && { failureConverterPath }),
    logger: new DefaultLogger('WARN'),
  });
  return { code };
}

async function build(path: URL, options: BundleOptions): Promise<{ code: string }> {
  const { code } = await bundleWorkflows({}, options);
  await mkdir(cache, { recursive: true });
  // Several processes may build at the same time, so each writes its own file and renames it when
  // it is complete.
  const draft = new URL(`${path.href}.${process.pid}`);
  await writeFile(draft, code);
  await rename(draft, path);
  return { code };
}
