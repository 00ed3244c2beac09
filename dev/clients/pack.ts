/** `npm run dev -- clients-pack`: builds the packages of the clients in `.cache/clients`, without publishing them. */
import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPythonCommands, root, run } from './tools.ts';

/** Builds the TypeScript client, and packs it into a folder. Returns the path of the tarball. */
export async function packTypescript(into: string): Promise<string> {
  const source = join(root, 'clients', 'typescript');
  const built = await mkdtemp(join(tmpdir(), 'client-'));
  try {
    await run('npx', ['--no-install', 'tsc', '-p', source, '--outDir', join(built, 'dist')], {
      cwd: root,
    });
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
    await rm(built, { recursive: true, force: true });
  }
}

/** Builds the Python client into a folder. Returns the paths of the wheel and the source distribution. */
export async function packPython(into: string): Promise<{ wheel: string; sdist: string }> {
  const source = join(root, 'clients', 'python');
  // Without isolation, Python uses the pinned build tool of tools.ts instead of the registry's latest.
  const python = join(await installPythonCommands(), 'python');
  await run(python, ['-m', 'build', '--no-isolation', '--outdir', into, source]);
  const files = await readdir(into);
  const findFile = (end: string): string =>
    join(into, files.find((name) => name.endsWith(end)) ?? '');
  return { wheel: findFile('.whl'), sdist: findFile('.tar.gz') };
}

if (import.meta.main) {
  const into = join(root, '.cache', 'clients');
  await rm(into, { recursive: true, force: true });
  const tarball = await packTypescript(into);
  const { wheel, sdist } = await packPython(into);
  console.log([tarball, wheel, sdist].join('\n'));
}
