/** The page of docs/browser.md, run unchanged in Chromium, and the tokens of its client. */
import { fork } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type * as Library from '../../clients/typescript/index.ts';
import { root, run } from '../../dev/clients/tools.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { describeInBrowser, useConsole } from '../clients/console/browser.ts';
import { installMs, installTypescriptClient, useInstallation } from '../clients/installed.ts';
import { until } from '../harness/until.ts';
import { readBlocks } from './markdown.ts';

const port = await freePort();
const origin = `http://127.0.0.1:${port}`;
const { gateway, visit } = useConsole({ env: { CORS_ORIGINS: origin } });
const installation = useInstallation('page', installTypescriptClient);
let stop: () => void = () => {};

beforeAll(async () => {
  const blocks = await readBlocks('docs/browser.md');
  const files = ['server.mjs', 'index.html', 'page.js'];
  expect(blocks).toHaveLength(files.length);
  for (const [index, file] of files.entries()) {
    const text = (blocks[index]?.text ?? '').replace('3000', String(port));
    const path = join(installation.place, file);
    await writeFile(path, text.replaceAll('http://127.0.0.1:4000', gateway.url));
  }
  const rolldown = join(root, 'node_modules/.bin/rolldown');
  const cwd = installation.place;
  await run(rolldown, ['page.js', '--file', 'dist/page.js'], { cwd });
  const env = { PATH: process.env['PATH'], KEY: gateway.caller.key };
  const server = fork(join(cwd, 'server.mjs'), {
    cwd,
    env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  stop = () => void server.kill('SIGKILL');
  await until(async () => (await fetch(origin).catch(() => null))?.ok);
}, installMs);
afterAll(() => stop());

const tokensOf = (endUser: string) => `/api/v1/end-users/${endUser}/tokens`;
const listTokens = async () =>
  (await gateway.call<{ data: object[] }>(tokensOf('customer-7'))).body.data;

describeInBrowser('a web page with browser tokens', () => {
  it('makes pictures for its end user, also after its token was revoked', async () => {
    const { page, problems } = await visit(origin);
    const draw = async (prompt: string) => {
      await page.getByLabel('A picture of').fill(prompt);
      await page.getByRole('button', { name: 'Draw' }).click();
      await page.getByRole('img', { name: prompt }).waitFor();
      await page.getByText('Done.').waitFor();
      await expect
        .poll(() => page.evaluate<number>('document.querySelector("img").naturalWidth'))
        .toBeGreaterThan(0);
    };
    await draw('a lighthouse');
    await draw('a pier');
    expect(problems).toEqual([]);
    expect(await listTokens()).toHaveLength(1);
    await gateway.send(tokensOf('customer-7'), { method: 'DELETE' });
    await draw('a harbour');
    expect(await listTokens()).toHaveLength(1);
    const jobs = await gateway.call<{ data: { prompt: string }[] }>(
      '/api/v1/studio/jobs?endUser=customer-7',
    );
    expect(jobs.body.data.map(({ prompt }) => prompt)).toEqual([
      'a harbour',
      'a pier',
      'a lighthouse',
    ]);
  });

  it('says that the credits of the end user are used up', async () => {
    const limit = { limit: { credits: 0, per: 'month' } };
    await gateway.send('/api/v1/end-users/customer-7', { method: 'PUT', body: limit });
    const { page } = await visit(origin);
    await page.getByLabel('A picture of').fill('a bridge');
    await page.getByRole('button', { name: 'Draw' }).click();
    await page.getByText('Your credits are used up.').waitFor();
  });
});

it('createBrowserClient fetches one token for requests at the same time, and renews it before its end', async () => {
  const main = 'node_modules/studio-gateway-client/dist/index.js';
  const library: typeof Library = await import(pathToFileURL(join(installation.place, main)).href);
  let fetched = 0;
  const client = library.createBrowserClient({
    baseUrl: gateway.url,
    async getToken() {
      fetched += 1;
      if (fetched === 3) throw new Error('signed out');
      const made = await gateway.call<{ data: Library.BrowserToken }>(tokensOf('ann'), {
        body: {},
      });
      const { token } = made.body.data;
      // The end of the first token is near, that of the others is past, as on a device with a wrong clock.
      return {
        token,
        expiresAt: new Date(Date.now() + (fetched === 1 ? 1000 : -60_000)).toISOString(),
      };
    },
  });
  const list = () => client.api.GET('/api/v1/studio/voices');
  await Promise.all([list(), list(), list()]);
  expect(fetched).toBe(1);
  await until(async () => (await list()) && fetched === 2);
  await Promise.all([list(), list()]);
  expect(fetched).toBe(2);
  await gateway.send(tokensOf('ann'), { method: 'DELETE' });
  await expect(list()).rejects.toThrow('signed out');
  await list();
  expect(fetched).toBe(4);
});
