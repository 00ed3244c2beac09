/** `npm run dev -- console-build`: builds the console into clients/console/dist if its sources changed. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

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
    if (!entry.isFile() || entry.name === '.sources-digest') continue;
    const content = readFileSync(path);
    writeFileSync(`${path}.br`, brotliCompressSync(content));
    writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  }
}

const hash = createHash('sha256');
for (const path of listSources()) hash.update(relative(root, path)).update(readFileSync(path));
const digest = hash.digest('hex');
if (!existsSync(digestFile) || readFileSync(digestFile, 'utf8') !== digest) {
  // A test run sets NODE_ENV to `test`, but the build is always for production.
  process.env['NODE_ENV'] = 'production';
  const { build } = await import('vite');
  await build({ configFile: join(consoleDir, 'vite.config.ts'), logLevel: 'error' });
  writeCompressedCopies();
  writeFileSync(digestFile, digest);
}
