/** `npm run dev -- console-build`: builds the console into console/dist, unless its sources are unchanged. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

const consoleDir = import.meta.dirname;
const project = join(consoleDir, '..');
const digestFile = join(consoleDir, 'dist', '.sources-digest');

/** Lists the console's sources, the client files that it imports, and the lockfile. */
function sources(): string[] {
  const inside = readdirSync(consoleDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/[\\/](dist|node_modules)[\\/]/.test(path));
  const outside = [
    'package-lock.json',
    'clients/typescript/errors.ts',
    'clients/typescript/event-stream.ts',
  ];
  return [...inside, ...outside.map((path) => join(project, path))].toSorted();
}

/** Writes compressed copies of each built file. The API sends them to browsers that accept them. */
function compress(): void {
  for (const entry of readdirSync(join(consoleDir, 'dist'), {
    recursive: true,
    withFileTypes: true,
  })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || entry.name === '.sources-digest') continue;
    const content = readFileSync(path);
    writeFileSync(`${path}.br`, brotliCompressSync(content));
    writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  }
}

const content = createHash('sha256');
for (const path of sources()) content.update(relative(project, path)).update(readFileSync(path));
const digest = content.digest('hex');
if (!existsSync(digestFile) || readFileSync(digestFile, 'utf8') !== digest) {
  // In a test run, NODE_ENV would otherwise be `test`.
  process.env['NODE_ENV'] = 'production';
  const { build } = await import('vite');
  await build({ configFile: join(consoleDir, 'vite.config.ts'), logLevel: 'error' });
  compress();
  writeFileSync(digestFile, digest);
}
