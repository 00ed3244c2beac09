/**
 * `npm run dev -- record-release <commit> <release>`: runs the sources of a release from git, with the
 * sandbox, and records its database while work is open in test/upgrade/<release>.ndjson. The tests of
 * the upgrade migrate it and continue that work.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');
const [commit, release] = process.argv.slice(2);
if (!commit || !/^\d+\.\d+\.\d+$/.test(release ?? '')) {
  process.stderr.write('record-release: name a commit and its release, such as 84b4fdce 0.1.0\n');
  process.exit(64);
}

const sources = mkdtempSync(join(tmpdir(), 'release-'));
const archived = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: 1 << 30 });
execFileSync('tar', ['-x', '-C', sources], { input: archived });
try {
  symlinkSync(join(root, 'node_modules'), join(sources, 'node_modules'));
  mkdirSync(join(sources, '.cache'));
  symlinkSync(join(root, '.cache/temporal'), join(sources, '.cache/temporal'));
  const folder = join(sources, 'test/upgrade');
  mkdirSync(folder, { recursive: true });
  const test = join(folder, 'record-release.test.ts');
  copyFileSync(join(root, 'test/upgrade/record-release.ts'), test);
  execFileSync(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', test], {
    cwd: sources,
    stdio: 'inherit',
    env: { ...process.env, RECORDED_RELEASE: join(root, `test/upgrade/${release}.ndjson`) },
  });
} finally {
  rmSync(sources, { recursive: true });
}
