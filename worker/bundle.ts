/**
 * Builds the workflow bundle and caches it in `.cache/` until its sources change. The cache saves
 * the second that webpack takes at every start of a worker.
 */
import { createHash } from 'node:crypto';
import { glob, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { failureConverterPath } from '../platform/payload-codec.ts';

const projectUrl = new URL('../', import.meta.url);
const cacheUrl = new URL('.cache/', projectUrl);

/**
 * Patterns of the files that determine the bundle: the workflows, the modules that they import, and
 * the versions of the packages.
 */
const sourcePatterns = [
  'workflows/**/*.ts',
  'domain/**/*.ts',
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
  /** Interceptor modules that run before the interceptor module of the gateway. */
  interceptorPaths?: string[];
}

/** Returns the code of the bundle. Reads it from the cache if its sources have not changed. */
export async function loadWorkflowBundle(
  options: BundleOptions = { encodeFailures: false },
): Promise<{ code: string }> {
  const hash = createHash('sha256');
  const files: string[] = [];
  for await (const file of glob(sourcePatterns, { cwd: fileURLToPath(projectUrl) }))
    files.push(file);
  for (const file of files.toSorted()) {
    // The files are sorted, because the hash depends on their order.
    hash.update(`${file}\n`).update(await readFile(new URL(file, projectUrl)));
  }
  const kind = options.encodeFailures ? 'encoded' : 'plain';
  const name = `workflow-bundle-${kind}-${hash.digest('hex').slice(0, 16)}.js`;
  const bundleUrl = new URL(name, cacheUrl);
  try {
    return { code: await readFile(bundleUrl, 'utf8') };
  } catch {
    return buildBundle(bundleUrl, options);
  }
}

/** Bundles the workflows and the modules that they import. */
export async function bundleWorkflows(
  { workflowsPath, interceptorPaths = [] }: BundleSources = {},
  options: BundleOptions = { encodeFailures: false },
): Promise<{ code: string }> {
  const workflows = workflowsPath ?? fileURLToPath(new URL('workflows/index.ts', projectUrl));
  // Interceptors run in the order of this list.
  const interceptors = [
    ...interceptorPaths,
    fileURLToPath(new URL('workflows/request-context.ts', projectUrl)),
  ];
  const { code } = await bundleWorkflowCode({
    workflowsPath: workflows,
    workflowInterceptorModules: interceptors,
    // Preloaded modules are evaluated once per process instead of once per workflow. This is safe,
    // because these modules have no state.
    preloadModules: [workflows, ...interceptors],
    ...(options.encodeFailures && { failureConverterPath }),
    logger: new DefaultLogger('WARN'),
  });
  return { code };
}

async function buildBundle(bundleUrl: URL, options: BundleOptions): Promise<{ code: string }> {
  const { code } = await bundleWorkflows({}, options);
  await mkdir(cacheUrl, { recursive: true });
  // Several processes may build the bundle at the same time, so each of them writes its own file
  // and renames the file when it is complete.
  const draftUrl = new URL(`${bundleUrl.href}.${process.pid}`);
  await writeFile(draftUrl, code);
  await rename(draftUrl, bundleUrl);
  return { code };
}
