/**
 * The generated files of clients/ match the OpenAPI document, and the packages match the project.
 */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { generateClients, generatedFiles } from '../../dev/clients/generate.ts';
import { root } from '../../dev/clients/tools.ts';
import { installMs, newPlace } from './installed.ts';

const place = await newPlace('generated');
afterAll(() => rm(place, { recursive: true, force: true }));

it('the generated files are fresh (npm run dev -- clients)', { timeout: installMs }, async () => {
  await generateClients(place);
  for (const file of Object.values(generatedFiles)) {
    const [fresh, committed] = await Promise.all(
      [place, root].map((folder) => readFile(join(folder, file), 'utf8')),
    );
    expect(committed === fresh, `${file} is out of date: run npm run dev -- clients`).toBe(true);
  }
});

it('the types of the Python client have no numbered names', async () => {
  const source = await readFile(join(root, generatedFiles.schemas), 'utf8');
  const names = [...source.matchAll(/^(?:class )?(\w+)(?:\(| = )/gm)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(100);
  expect(names.filter((name) => /\d$/.test(name ?? ''))).toEqual([]);
});

it('the TypeScript client depends on the versions that its tests use', async () => {
  const read = async (file: string) =>
    JSON.parse(await readFile(join(root, file), 'utf8')) as Record<string, Record<string, string>>;
  const [own, project] = await Promise.all([
    read('clients/typescript/package.json'),
    read('package.json'),
  ]);
  const known = { ...project?.['devDependencies'], ...project?.['dependencies'] };
  for (const [name, range] of Object.entries(own?.['dependencies'] ?? {})) {
    expect(range).toBe(`^${known[name]}`);
  }
});

it('the clients have the version of the gateway', async () => {
  const read = (file: string) => readFile(join(root, file), 'utf8');
  const readVersion = async (file: string) =>
    (JSON.parse(await read(file)) as { version: string }).version;
  const version = await readVersion('package.json');
  expect(await readVersion('clients/typescript/package.json')).toBe(version);
  const project = await read('clients/python/pyproject.toml');
  expect(/^version = "(.*)"$/m.exec(project)?.[1]).toBe(version);
});
