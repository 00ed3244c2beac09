/** `npm run clients-pack`: builds the packages of the clients in `.cache/clients`, without publishing them. */
import { cp, mkdir, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { installNpm } from '../stack/tools.ts';
import { installPythonCommands, root, run } from './tools.ts';

/** Builds the TypeScript client, and packs it into a folder. Returns the path of the tarball. */
export const packTypescript = (into: string): Promise<string> => packNpm('typescript', '', into);

/** Builds the provider for the AI SDK, and packs it into a folder. Returns the path of the tarball. */
export const packAiSdk = (into: string): Promise<string> =>
  // Its types need the sources of the client, which are compiled into a folder beside it.
  packNpm('ai-sdk', 'ai-sdk', into);

/** Folders of clients/ that are packages of npm. */
const npmClients = ['typescript', 'ai-sdk'];

async function readManifest(path: string): Promise<Record<string, Record<string, string>>> {
  return JSON.parse(await readFile(join(root, path, 'package.json'), 'utf8'));
}

/**
 * Installs the compiler and the dependencies of the clients outside of node_modules, where processes of `npm start` may use
 * the dependencies without those of developers. Returns the folder that contains the packages.
 */
async function installCompiler(): Promise<string> {
  const { devDependencies: { typescript = '' } = {} } = await readManifest('');
  const manifests = npmClients.map((name) => readManifest(join('clients', name)));
  const ranges = (await Promise.all(manifests)).flatMap((manifest) =>
    Object.entries(manifest['dependencies'] ?? {}),
  );
  // The lowest versions that the packages allow; the provider is compiled with the sources of the client.
  const lowest = ranges
    .filter(([name]) => name !== 'studio-gateway-client')
    .map(([name, range]) => [name, range.replace('^', '')]);
  return installNpm('pack', { dependencies: { typescript, ...Object.fromEntries(lowest) } });
}

/** Packs a folder of clients/. `compiled` is the folder of the compiler's output that is packed. */
async function packNpm(name: string, compiled: string, into: string): Promise<string> {
  const modules = await installCompiler();
  // The compiler finds the dependencies of sources that lie beside them.
  const sources = await mkdtemp(join(dirname(modules), 'sources-'));
  const built = await mkdtemp(join(tmpdir(), 'client-'));
  try {
    const copied = ['tsconfig.json', ...npmClients.map((client) => join('clients', client))];
    for (const path of copied) await cp(join(root, path), join(sources, path), { recursive: true });
    const source = join(sources, 'clients', name);
    const output = join(sources, 'output');
    const compiler = join(modules, 'typescript', 'bin', 'tsc');
    await run(process.execPath, [compiler, '-p', source, '--outDir', output]);
    await cp(join(output, compiled), join(built, 'dist'), { recursive: true });
    for (const file of ['package.json', 'README.md']) {
      await cp(join(source, file), join(built, file));
    }
    await cp(join(root, 'LICENSE'), join(built, 'LICENSE'));
    await mkdir(into, { recursive: true });
    const args = ['pack', '--json', '--pack-destination', into];
    const { stdout } = await run('npm', args, { cwd: built });
    const [report]: { filename: string }[] = JSON.parse(stdout);
    return join(into, report?.filename ?? '');
  } finally {
    for (const folder of [built, sources]) await rm(folder, { recursive: true, force: true });
  }
}

/** Builds the Python client into a folder. Returns the paths of the wheel and the source distribution. */
export async function packPython(into: string): Promise<{ wheel: string; sdist: string }> {
  const source = await mkdtemp(join(tmpdir(), 'client-'));
  // Without isolation, Python uses the pinned build tool of tools.ts instead of the registry's latest.
  const python = join(await installPythonCommands(), 'python');
  try {
    await cp(join(root, 'clients', 'python'), source, { recursive: true });
    await cp(join(root, 'LICENSE'), join(source, 'LICENSE'));
    await run(python, ['-m', 'build', '--no-isolation', '--outdir', into, source]);
  } finally {
    await rm(source, { recursive: true, force: true });
  }
  const files = await readdir(into);
  const findFile = (end: string): string =>
    join(into, files.find((name) => name.endsWith(end)) ?? '');
  return { wheel: findFile('.whl'), sdist: findFile('.tar.gz') };
}

if (import.meta.main) {
  const into = join(root, '.cache', 'clients');
  await rm(into, { recursive: true, force: true });
  const tarballs = [await packTypescript(into), await packAiSdk(into)];
  const { wheel, sdist } = await packPython(into);
  console.log([...tarballs, wheel, sdist].join('\n'));
}
