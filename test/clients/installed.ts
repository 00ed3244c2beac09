/** Packs the clients and installs them into a new folder, as users do. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { packAiSdk, packPython, packTypescript } from '../../dev/clients/pack.ts';
import { root, run } from '../../dev/clients/tools.ts';
import { createPythonEnvironment, installPython } from '../../dev/stack/tools.ts';

/** Time limit of an installation, because the first run downloads the tools. */
export const installMs = 900_000;

/** Installs something into a new folder before the tests of a file, and deletes the folder after them. */
export function useInstallation(name: string, install: (place: string) => Promise<unknown>) {
  const installation = { place: '' };
  beforeAll(async () => {
    installation.place = await newPlace(name);
    await install(installation.place);
  }, installMs);
  afterAll(() => rm(installation.place, { recursive: true, force: true }));
  return installation;
}

/** Installs Python's frameworks; returns the path of their Python. */
export async function installPythonFrameworks(): Promise<string> {
  const packages = [
    'anthropic==2.13.0',
    'instructor==1.17.0',
    'langchain-anthropic==1.7.10',
    'langchain-openai==1.6.6',
    'langchain-tests==1.1.9',
    'litellm==1.106.2',
    // The newest version that all of them accept.
    'openai==2.54.0',
    'openai-agents==0.20.0',
  ];
  return join(await installPython('python-frameworks', packages), 'python');
}

/** Makes an empty folder for one run of a test. */
export async function newPlace(name: string): Promise<string> {
  const place = join(root, '.cache', `${name}-${process.pid}`);
  await rm(place, { recursive: true, force: true });
  await mkdir(place, { recursive: true });
  return place;
}

/** Packs the TypeScript client and installs it in a folder, with what it depends on. */
export async function installTypescriptClient(place: string): Promise<void> {
  const tarball = await packTypescript(join(place, 'packed'));
  await writeFile(join(place, 'package.json'), '{"private": true, "type": "module"}');
  const flags = ['--no-audit', '--no-fund', '--prefer-offline'];
  await run('npm', ['install', ...flags, tarball], { cwd: place });
}

/** Packs the provider for the AI SDK and installs it in an empty folder, beside the AI SDK. */
export async function installAiSdk(place: string): Promise<void> {
  const packed = join(place, 'packed');
  const tarballs = [await packTypescript(packed), await packAiSdk(packed)];
  await writeFile(join(place, 'package.json'), '{"private": true, "type": "module"}');
  const flags = ['--no-audit', '--no-fund', '--prefer-offline'];
  const tools = ['ai@7.0.173', 'zod@4.6.7', '@types/node@24.19.2'];
  await run('npm', ['install', ...flags, ...tarballs, ...tools], { cwd: place });
}

/** Packs the Python client and installs its wheel for a Python of its own. Returns that Python. */
export async function installPythonClient(place: string): Promise<string> {
  const { wheel } = await packPython(join(place, 'packed-python'));
  await createPythonEnvironment(join(place, 'python'), [wheel]);
  return join(place, 'python', 'bin', 'python');
}
