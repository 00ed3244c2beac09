/** `npm run dev -- console-build`: builds the console into clients/console/dist if its sources changed. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { Rolldown } from 'vite';

const consoleDir = import.meta.dirname;
const root = join(consoleDir, '../..');
const digestFile = join(consoleDir, 'dist', '.sources-digest');

/** Lists the console's sources, the client files that it imports, and the lockfile. */
function listSources(): string[] {
  const consoleFiles = readdirSync(consoleDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/[\\/](dist|node_modules)[\\/]/.test(path));
  const otherFiles = [
    'package-lock.json',
    'clients/items/cell-values.ts',
    'clients/items/items-file.ts',
    'clients/items/text-encoding.ts',
    'clients/typescript/errors.ts',
    'clients/typescript/event-stream.ts',
  ];
  return [...consoleFiles, ...otherFiles.map((path) => join(root, path))].toSorted();
}

/** Writes compressed copies of each built file. The API sends them to browsers that accept them. */
function writeCompressedCopies(): void {
  for (const entry of readdirSync(join(consoleDir, 'dist'), {
    recursive: true,
    withFileTypes: true,
  })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || /^\.sources-digest$|\.(br|gz)$/.test(entry.name)) continue;
    const content = readFileSync(path);
    writeFileSync(`${path}.br`, brotliCompressSync(content));
    writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  }
}

/** Time for which the API serves the files of earlier releases to open tabs, in milliseconds. */
const keptMs = 7 * 24 * 3_600_000;

/** Removes the files of earlier releases. A build writes its own files anew. */
function removeOldFiles(): void {
  const assets = join(consoleDir, 'dist', 'assets');
  if (!existsSync(assets)) return;
  for (const name of readdirSync(assets)) {
    const path = join(assets, name);
    if (statSync(path).mtimeMs < Date.now() - keptMs) rmSync(path);
  }
}

/** Modules of the first page: the frame, and the playground in it. */
const firstModules = ['index.html', 'pages/playground/playground.tsx'];
const firstPageBytesMax = 150_000;

/** Checks the size of the compressed files of the first page. @throws Error if they are too large */
function checkFirstPage({ output }: Rolldown.RolldownOutput): void {
  const files = new Set<string>();
  const add = (fileName: string): void => {
    const chunk = output.find((candidate) => candidate.fileName === fileName);
    if (files.has(fileName) || !chunk) return;
    files.add(fileName);
    if (chunk.type !== 'chunk') return;
    for (const name of [...chunk.imports, ...(chunk.viteMetadata?.importedCss ?? [])]) add(name);
  };
  for (const item of output) {
    const module = item.type === 'chunk' ? (item.facadeModuleId ?? '') : '';
    if (firstModules.some((name) => module.endsWith(name))) add(item.fileName);
  }
  const bytes = [...files].reduce(
    (sum, name) => sum + readFileSync(join(consoleDir, 'dist', `${name}.gz`)).byteLength,
    0,
  );
  console.log(`First page of the console: ${(bytes / 1000).toFixed(1)} kB in ${files.size} files`);
  if (bytes > firstPageBytesMax) {
    throw new Error(
      `The first page of the console has ${bytes} bytes, allowed: ${firstPageBytesMax}`,
    );
  }
}

const hash = createHash('sha256');
for (const path of listSources()) hash.update(relative(root, path)).update(readFileSync(path));
const digest = hash.digest('hex');
if (!existsSync(digestFile) || readFileSync(digestFile, 'utf8') !== digest) {
  // A test run sets NODE_ENV to `test`, but the build is always for production.
  process.env['NODE_ENV'] = 'production';
  removeOldFiles();
  const { build } = await import('vite');
  const built = await build({ configFile: join(consoleDir, 'vite.config.ts'), logLevel: 'error' });
  writeCompressedCopies();
  if ('output' in built) checkFirstPage(built);
  writeFileSync(digestFile, digest);
}
