/** The number of the release stands in the manifests of all packages, which registries and Helm read. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { release } from '../../platform/release.ts';

const root = new URL('../../', import.meta.url);
/** Manifests with each line that contains a number of the release. */
const manifests: [file: string, lines: RegExp][] = [
  ...['clients/ai-sdk', 'clients/console', 'clients/typescript', 'dev'].map(
    (folder): [string, RegExp] => [
      `${folder}/package.json`,
      /"(?:version|studio-gateway[a-z-]*)": "[^"]+"/g,
    ],
  ),
  ['clients/python/pyproject.toml', /^version = "[^"]+"/gm],
  ['deploy/helm/Chart.yaml', /^(?:version|appVersion): .+/gm],
];
const readNumbers = (text: string, lines: RegExp): string[] =>
  (text.match(lines) ?? []).map((line) => /\d+\.\d+\.\d+\S*(?<!")/.exec(line)?.[0] ?? line);

it.each(manifests)('%s has the number of the release', (file, lines) => {
  const numbers = readNumbers(readFileSync(new URL(file, root), 'utf8'), lines);
  expect(numbers.length).toBeGreaterThan(0);
  expect(numbers.filter((number) => number !== release)).toEqual([]);
});

it.each(['clients/ai-sdk/README.md', 'clients/python/README.md', 'clients/typescript/README.md'])(
  '%s installs packages of the release',
  (file) => {
    const text = readFileSync(new URL(file, root), 'utf8');
    const packages = text.match(/studio[_-]gateway[a-z_-]*-\d+\.\d+\.\d+/g) ?? [];
    expect(packages.length).toBeGreaterThan(0);
    expect(packages.filter((name) => !name.endsWith(`-${release}`))).toEqual([]);
  },
);
