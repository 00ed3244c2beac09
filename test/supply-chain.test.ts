/**
 * Dependencies are exactly those that were chosen: exact versions, checksums, and no version with a
 * known fault.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

type Locked = Partial<Record<'version' | 'integrity' | 'resolved', string>> &
  Partial<Record<'optional' | 'inBundle' | 'link', boolean>>;
const read = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8'));
const manifest = read('package.json') as Record<string, Record<string, string>>;
const local = read('dev/package.json') as Record<string, Record<string, string>>;
const { packages } = read('package-lock.json') as { packages: Record<string, Locked> };
/** The locked packages, without the project and its workspaces, which come from no registry. */
const locked = Object.entries(packages).filter(
  ([path, { link }]) => path.startsWith('node_modules/') && link !== true,
);

/** The first versions without a known vulnerability (docs/guarantees.md names them). */
const leastVersions: Record<string, string> = { koa: '3.1.2', undici: '7.18.0' };
const older = (version: string, least: string): boolean => {
  const [mine = [], required = []] = [version, least].map((word) => word.split('.').map(Number));
  const at = mine.findIndex((part, index) => part !== required[index]);
  return at !== -1 && (mine[at] ?? 0) < (required[at] ?? 0);
};

describe('the dependencies', () => {
  it('have exact versions', () => {
    const named = {
      ...manifest['dependencies'],
      ...manifest['devDependencies'],
      ...local['dependencies'],
    };
    expect(Object.keys(named).length).toBeGreaterThan(20);
    const loose = Object.entries(named).filter(([, version]) => !/^\d+\.\d+\.\d+/.test(version));
    expect(loose).toEqual([]);
  });

  it('have checksums, and come only from the registry', () => {
    // Builds for other platforms are optional; those that are not installed here have none.
    const isBare = (entry: Locked) => !entry.integrity && !entry.optional && !entry.inBundle;
    const isElsewhere = ({ resolved }: Locked) => resolved && !resolved.startsWith('https:');
    const wrong = locked.filter(([, entry]) => isBare(entry) || isElsewhere(entry));
    expect(wrong.map(([path]) => path)).toEqual([]);
  });

  it('run only the allowed install scripts', () => {
    const allowed = manifest['allowScripts'] as unknown as Record<string, boolean>;
    expect(Object.keys(allowed).length).toBeGreaterThan(0);
    expect(Object.keys(allowed).length).toBeLessThan(10);
  });

  it.each(Object.entries(leastVersions))(
    'have at least the first sound version: %s',
    (name, least) => {
      const versions = locked
        .filter(([path]) => path.endsWith(`node_modules/${name}`))
        .map(([, { version = '' }]) => version);
      expect(versions.length).toBeGreaterThan(0);
      expect(versions.filter((version) => older(version, least))).toEqual([]);
    },
  );
});
