/** `npm run dev -- clients-pack`: builds the packages of the clients in `.cache/clients`, without publishing them. */
import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPythonCommands, root, run } from './tools.ts';

/** Builds the TypeScript client, and packs it into a folder. Returns the path of the tarball. */
export const packTypescript = (into: string): Promise<string> => packNpm('typescript', '', into);

/** Builds the provider for the AI SDK, and packs it into a folder. Returns the path of the tarball. */
export const packAiSdk = (into: string): Promise<string> =>
  // Its types need the sources of the client, which are compiled into a folder beside it.
  packNpm('ai-sdk', 'ai-sdk', into);

/** Packs a folder of clients/. `compiled` is the folder of the compiler's output that is packed. */
async function packNpm(name: string, compiled: string, into: string): Promise<string> {
  const source = join(root, 'clients', name);
  const built = await mkdtemp(join(tmpdir(), 'client-'));
  const output = await mkdtemp(join(tmpdir(), 'client-output-'));
  try {
    await run('npx', ['--no-install', 'tsc', '-p', source, '--outDir', output], { cwd: root });
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
    for (const folder of [built, output]) await rm(folder, { recursive: true, force: true });
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
