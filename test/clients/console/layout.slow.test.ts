/**
 * Every page at five widths and in both themes, in a real browser: nothing is cut off, and axe finds nothing. Journeys
 * by keyboard alone.
 */
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { untilHolds } from '../../harness/until.ts';
import { describeInBrowser, expectAccessible, expectWidth, useConsole } from './browser.ts';

const widths = [390, 768, 1024, 1280, 1920];
/** Themes that axe looks at, by the width. */
const themes = new Map<number, 'light' | 'dark'>([
  [390, 'light'],
  [1920, 'dark'],
]);
type Role = Parameters<Page['getByRole']>[0];

describeInBrowser('the pages of the console', () => {
  const { gateway, openAs, openPath } = useConsole();
  /** Ids in the addresses of pages. */
  const ids: Record<string, string> = {};

  beforeAll(async () => {
    const { receiver, startImage, untilDone, call, caller } = gateway;
    const url = receiver.at('/away', (response) => response.writeHead(500).end());
    const metadata = { team: 'a-name-without-spaces-'.repeat(4) };
    const wide = { prompt: 'a lighthouse on a coast '.repeat(6), numImages: 9, metadata };
    const completed = await startImage({ ...wide, webhookUrl: url });
    // More results than a strip can show.
    await Promise.all(Array.from({ length: 8 }, () => startImage({ prompt: 'a red boat' })));
    const failed = await startImage({ prompt: `[[fail:422]] ${'longword'.repeat(30)}` });
    const items = [{ use: 'image/generate', body: { prompt: 'a red boat' } }];
    const bulk = await call<{ data: { bulkId: string } }>('/api/v1/studio/bulk', {
      method: 'POST',
      body: { items },
    });
    await startImage({ prompt: 'a red boat', endUser: 'an-end-user-without-spaces-'.repeat(4) });
    await call('/api/v1/end-users/*', {
      method: 'PUT',
      body: { limit: { credits: 500, per: 'month' }, rateLimit: 30 },
    });
    const messages = [{ role: 'user', content: 'hello' }];
    await call('/api/v1/chat', { method: 'POST', body: { model: 'gpt-5-mini', messages } });
    await call('/api/v1/studio/image/generate', { method: 'POST', body: { prompt: '' } });
    await Promise.all([completed, failed].map((jobId) => untilDone(jobId)));
    await untilHolds(async () => {
      const { body } = await call('/api/v1/webhooks/deliveries?state=failing');
      expect(body).toMatchObject({ data: [{ jobId: completed }] });
    });
    const { bulkId } = bulk.body.data;
    await call(`/api/v1/studio/bulk/${bulkId}?wait=60`);
    await untilHolds(async () => {
      const { body } = await call<{ data: { id: string }[] }>('/api/v1/requests?status=rejected');
      ids['rejected'] = body.data[0]?.id ?? '';
      expect(ids['rejected']).toMatch(/^rej_/);
    });
    Object.assign(ids, { completed, failed, bulk: bulkId, organization: caller.organizationId });
  });

  /** Runs a test beside a job that runs for long. It is canceled, because no test may leave an open job. */
  async function besideRunningJob(test: () => Promise<void>): Promise<void> {
    const running = await gateway.startImage({ prompt: '[[slow:900s]] a slow lighthouse' });
    ids['running'] = running;
    try {
      await test();
    } finally {
      await gateway.cancel(running);
      await gateway.untilDone(running);
    }
  }

  /** Begins a session of a caller or of an operator in a browser. */
  async function beginSession(page: Page, path: string, key: string, data?: object): Promise<void> {
    const headers = { authorization: `Bearer ${key}` };
    const session = await page.request.post(gateway.url + path, { headers, ...(data && { data }) });
    expect(session.status()).toBe(201);
  }

  /** Opens a page, as a caller and, if it is one of operators, as an operator. */
  async function openAsItsUser(path: string) {
    const place = path.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? '');
    const { page, problems } = await openPath(place, async (opened) => {
      if (path === 'sign-in') return;
      await beginSession(opened, '/api/v1/session', gateway.caller.key);
      if (!path.startsWith('operator')) return;
      const { ADMIN_API_KEY } = gateway.config;
      await beginSession(opened, '/api/admin/v1/session', ADMIN_API_KEY, { actor: 'Olga' });
    });
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    return { page, problems };
  }

  /** Expects that a page fits in all widths, and that axe finds nothing in both themes. */
  async function expectLayout(path: string): Promise<void> {
    const { page, problems } = await openAsItsUser(path);
    expect(await page.title()).toMatch(/^\w.* · Studio Gateway$/);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await expectWidth(page, width);
      const colorScheme = themes.get(width);
      if (colorScheme === undefined) continue;
      await page.emulateMedia({ colorScheme });
      await expectAccessible(page);
    }
    expect(problems).toEqual([]);
  }

  it('shows the price and the button of the playground in view', async () => {
    const { page } = await openAs();
    for (const [width, height] of [
      [1920, 1080],
      [1440, 900],
      [1024, 900],
      [390, 844],
    ] as const) {
      await page.setViewportSize({ width, height });
      await page.goto(`${gateway.url}/console/playground/image/generate`);
      await page.getByText('at most 3.90 credits').waitFor();
      const box = await page.getByRole('button', { name: 'Generate' }).boundingBox();
      expect((box?.y ?? height) + (box?.height ?? 0)).toBeLessThanOrEqual(height);
    }
  });

  it.each([
    'sign-in',
    'playground/image/generate',
    'playground/video/generate',
    'playground/music/generate',
    'playground/pipelines',
    'playground/compare',
    'playground/compare?type=chat',
    'playground/chat',
    'jobs',
    'jobs?status=failed&tag=team=red',
    'jobs/:completed',
    'jobs/:failed',
    'requests',
    'requests/:rejected',
    'files',
    'bulk',
    'bulk/:bulk',
    'usage',
    'end-users',
    'keys',
    'webhooks',
    'models',
    'operator',
    'operator/jobs/:completed',
    'operator/webhooks',
    'operator/organizations',
    'operator/organizations/:organization',
    'operator/prices',
    'operator/operators',
    'operator/actions',
    'no-such-page',
  ])('%s fits, and axe finds nothing', expectLayout);

  it.each(['jobs/:running', 'operator/jobs/:running', 'operator/jobs'])(
    '%s fits while a job runs, and axe finds nothing',
    (path) => besideRunningJob(() => expectLayout(path)),
  );

  /** Presses Tab until an element has the focus. */
  async function reach(page: Page, role: Role, name: string | RegExp) {
    const dialog = page.getByRole('dialog');
    const scope = (await dialog.count()) > 0 ? dialog : page;
    const target = scope.getByRole(role, { name }).first();
    await target.waitFor();
    for (let presses = 0; presses < 300; presses += 1) {
      if ((await target.and(page.locator(':focus')).count()) > 0) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`Tab does not reach ${role} ${name}`);
  }

  /** Journey: its name, a page, elements with the keys that are pressed or typed there, and the text that is shown at the end. */
  type Journey = [string, string, [Role, string | RegExp, string][], string | RegExp];

  async function runByKeyboard([, path, steps, shown]: Journey): Promise<void> {
    const { page, problems } = await openAsItsUser(path);
    for (const [role, name, keys] of steps) {
      await reach(page, role, name);
      if (['Enter', 'Space'].includes(keys)) await page.keyboard.press(keys);
      else await page.keyboard.type(keys);
    }
    await page.getByText(shown).first().waitFor();
    expect(problems).toEqual([]);
  }

  it.each<Journey>([
    [
      'a job runs again and opens in the playground',
      'jobs/:completed',
      [
        ['button', /^Run again/, 'Enter'],
        ['button', 'Open in the playground', 'Enter'],
      ],
      'Generate',
    ],
    [
      'a stuck job is canceled with a reason',
      'operator/jobs',
      [
        ['combobox', 'Open for at least', 'a'],
        ['checkbox', /^Select/, 'Space'],
        ['button', 'Act on 1 selected', 'Enter'],
        ['textbox', /^Reason/, 'ticket 3'],
        ['button', 'Run', 'Enter'],
      ],
      /^reverify: ticket 3$/,
    ],
    [
      'an organization gets credits',
      'operator/organizations/:organization',
      [
        ['button', 'Grant', 'Enter'],
        ['spinbutton', 'Credits', '5'],
        ['textbox', /^Reason/, 'invoice 3'],
        ['button', 'Grant', 'Enter'],
      ],
      'Olga: invoice 3',
    ],
    [
      'models are sorted by time, and one is tried',
      'models',
      [
        ['button', 'Video', 'Enter'],
        ['button', 'Usual time', 'Enter'],
        ['button', /^Try /, 'Enter'],
      ],
      'Generate',
    ],
    [
      'a key is created',
      'keys',
      [
        ['button', 'New key', 'Enter'],
        ['textbox', 'Name', 'by keyboard'],
        ['button', 'Create key', 'Enter'],
        ['button', 'I have copied it', 'Enter'],
      ],
      'by keyboard',
    ],
  ])('by keyboard alone, %s', (...row) => besideRunningJob(() => runByKeyboard(row)));
});
