/** The account pages of callers (usage, keys, webhooks, models) in a real browser. */
import { sweepOnce } from '../../harness/sweeps.ts';
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { describeInBrowser, expectAccessible, signIn, useConsole } from './browser.ts';

describeInBrowser('the account in the console', () => {
  const { gateway, openAs } = useConsole();

  async function draw(key: string, more: object = {}): Promise<string> {
    const jobId = await gateway.startImage({ prompt: 'a lighthouse', ...more }, key);
    await gateway.untilDone(jobId, key);
    return jobId;
  }
  const visit = (page: Page, name: string) =>
    page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).click();

  it('lists requests with the reason of a rejection, by filters, and opens them in the playground', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const messages = [{ role: 'user', content: 'hello' }];
    const send = (name: string, body: object) => gateway.call(`/api/v1/${name}`, { key, body });
    await send('chat', { model: 'gpt-4o', messages, metadata: { team: 'red' } });
    await send('embeddings', { model: 'text-embedding-3-small', input: 'hello' });
    await send('chat', { model: 'gpt-4o', messages, max_tokens: -1 });
    await send('studio/video/generate', { prompt: '' });
    const { page, problems } = await openAs(key);
    const rows = page.getByRole('list', { name: 'Requests', exact: true }).getByRole('link');
    await expect
      .poll(async () => {
        await page.goto(`${gateway.url}/console/requests`);
        await page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor();
        await rows.first().waitFor();
        return rows.count();
      })
      .toBe(4);
    expect(await rows.nth(0).textContent()).toContain('StudioPOST /studio/video/generate');
    expect(await rows.nth(3).textContent()).toMatch(/Chatgpt-4o openai1 → \d+completed/);
    const filters = page.getByRole('search', { name: 'Requests' });
    await filters.getByLabel('Status').selectOption('rejected');
    await expect.poll(() => rows.count()).toBe(2);
    await filters.getByLabel('Kind').selectOption('chat');
    await expect.poll(() => rows.count()).toBe(1);
    await rows.first().click();
    await page.getByRole('heading', { name: 'Chat request' }).waitFor();
    await page.getByText('The request is not valid.').waitFor();
    await page.getByText('Field: max_tokens.').waitFor();
    await expectAccessible(page);
    const { body } = await gateway.call<{ data: { requestId: string }[] }>(
      '/api/v1/requests?status=rejected&kind=chat',
      { key },
    );
    await page.keyboard.press('Control+k');
    await page.getByLabel('Search', { exact: true }).fill(body.data[0]?.requestId ?? '');
    await page.getByRole('option', { name: 'Chat · gpt-4o · rejected' }).click();
    await page.getByRole('heading', { name: 'Chat request' }).waitFor();
    await page.getByRole('link', { name: 'Replay in the playground' }).click();
    await page.getByLabel('Your message').waitFor();
    expect(new URL(page.url()).search).toBe('?model=gpt-4o');
    await page.goto(`${gateway.url}/console/requests?tag=team=red`);
    await expect.poll(() => rows.count()).toBe(1);
    expect(problems).toEqual([]);
  });

  it('shows usage by day and model, as a table and as CSV, and for each record', async () => {
    const { key } = await gateway.newCaller({ credits: 100, windowCredits: 50 });
    await draw(key);
    await draw(key, { model: 'seedream', metadata: { team: 'a=b' } });
    const { page, problems } = await openAs(key);
    await visit(page, 'Usage');
    await page.getByText('of 50.00 credits').waitFor();
    expect(await page.getByLabel('Period').inputValue()).toBe('7');
    const totals = page.locator('table.totals');
    await totals.getByRole('row', { name: 'nano-banana 1 3.90' }).waitFor();
    await totals.getByRole('row', { name: 'seedream 1 3.00' }).waitFor();
    await totals.getByRole('row', { name: 'Total 2 6.90' }).waitFor();
    await page.getByText('Show as table').click();
    await page.getByRole('region', { name: 'Credits by day' }).getByText('3.90').waitFor();
    expect(await page.locator('.chart canvas').count()).toBe(1);
    await expectAccessible(page);
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download as CSV' }).click(),
    ]);
    const csv = await readFile(await file.path(), 'utf8');
    expect(csv).toMatch(/^\uFEFF"day","model","requests","credits"/);
    expect(csv).toContain(',"seedream",1,3,');
    const records = page.getByRole('region', { name: 'Records' });
    await records.getByRole('link', { name: 'Image · generate' }).first().click();
    await page.getByRole('heading', { name: 'Image · generate' }).waitFor();
    await page.goto(`${gateway.url}/console/jobs?tag=team=a=b`);
    await page.getByRole('list', { name: 'Jobs' }).getByText('seedream').waitFor();
    // The chart has colors for eight series; the last of them is the sum of all smaller ones.
    let models = 'abcdefgh';
    await page.route('**/usage/summary?*', async (route) => {
      const json = await (await route.fetch()).json();
      const rows = models.split('').map((model, index) => ({
        ...json.rows[0],
        model,
        requests: 1,
        credits: 100 - index,
      }));
      await route.fulfill({ json: { ...json, rows } });
    });
    const chart = page.locator('.chart i');
    await visit(page, 'Usage');
    await totals.getByRole('row', { name: 'h 1 93.00' }).waitFor();
    expect(await chart.count()).toBe(8);
    models = 'abcdefghij';
    await page.getByLabel('Period').selectOption('30');
    await totals.getByRole('row', { name: 'Other 3 276.00' }).waitFor();
    await totals.getByRole('row', { name: 'g 1 94.00' }).waitFor();
    await totals.getByRole('row', { name: 'Total 10 955.00' }).waitFor();
    expect(await chart.count()).toBe(8);
    expect(problems).toEqual([]);
  });

  it('creates a key with a limit, shows it once, and shows when the limit is used up', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const { page, problems } = await openAs(caller.key);
    await visit(page, 'API keys');
    await page.getByRole('button', { name: 'New key' }).click();
    await expectAccessible(page);
    await page.getByLabel('Name', { exact: true }).fill('budget');
    await page.getByLabel('Limit in credits').fill('4');
    await page.getByRole('combobox', { name: 'Per' }).selectOption('total');
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = (await page.locator('[data-secret]').textContent()) ?? '';
    expect(key).toMatch(/^gk_live_/);
    await page.getByRole('button', { name: 'I have copied it' }).click();
    expect(await page.content()).not.toContain(key);
    await draw(key);
    await page.reload();
    const line = page.getByRole('row').filter({ hasText: 'budget' });
    await line.getByText('3.90 used, 0.10 remaining').waitFor();
    await line.getByRole('button', { name: 'Limits' }).click();
    expect(await page.getByLabel('Limit in credits').inputValue()).toBe('4');
    await page.getByLabel('Requests a minute').fill('77');
    await page.getByLabel('Open jobs at most').fill('3');
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Save' }).click();
    await line.getByRole('cell', { name: '77', exact: true }).waitFor();
    await line.getByRole('cell', { name: '3', exact: true }).waitFor();
    const { body } = await gateway.call('/api/v1/key', { key });
    expect(body).toMatchObject({ limit: { credits: 4, per: 'total' }, rateLimit: 77, jobsMax: 3 });
    await expectAccessible(page);
    expect(problems).toEqual([]);

    const spent = await openAs(key);
    await spent.page.getByLabel('Prompt', { exact: false }).first().fill('one too many');
    await spent.page.getByRole('button', { name: 'Generate' }).click();
    await spent.page.getByRole('alert').getByText(/limit/).first().waitFor();
    await spent.page.close();

    await line.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('are rejected immediately').waitFor();
    await expectAccessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await line.waitFor({ state: 'detached' });
    expect((await gateway.call('/api/v1/key', { key })).status).toBe(401);
  });

  it('lists end users by what they spend, limits and suspends them, returns them to the defaults, and revokes their tokens', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    for (const endUser of ['ann', 'ann', 'bob']) await draw(key, { endUser });
    const minted = await gateway.call<{ data: { token: string } }>('/api/v1/end-users/bob/tokens', {
      key,
      body: {},
    });
    const { token } = minted.body.data;
    const { page, problems } = await openAs(key);
    await visit(page, 'End users');
    const rows = page.locator('tbody tr');
    await rows.nth(2).waitFor();
    const names = await rows.evaluateAll((lines) =>
      lines.map((line) => line.getAttribute('data-row')),
    );
    expect(names).toEqual(['*', 'ann', 'bob']);
    await rows.nth(1).getByText('7.80').waitFor();
    const change = async (name: string, fill: () => Promise<unknown>, verb: string) => {
      await page.getByRole('button', { name }).click();
      const dialog = page.getByRole('dialog');
      await fill();
      await expectAccessible(page);
      await dialog.getByRole('button', { name: verb, exact: true }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    const credits = page.getByLabel('Limit in credits');
    await change('Limits of all others', () => credits.fill('10'), 'Save');
    await rows.nth(0).getByText('10 credits a month').waitFor();
    await rows.nth(1).getByText('7.80 used, 2.20 remaining').waitFor();
    await rows.nth(1).getByText('The limit of all others').waitFor();
    await change(
      'Suspend “ann”',
      () => page.getByText('Running ones continue.').waitFor(),
      'Suspend',
    );
    await rows.nth(1).getByText('Suspended').waitFor();
    await change('Revoke tokens of “bob”', () => page.getByText('immediately').waitFor(), 'Revoke');
    expect((await gateway.call('/api/v1/studio/jobs', { key: token })).status).toBe(401);
    const endUser = page.getByRole('textbox', { name: /^End user/ });
    await change(
      'Limit an end user',
      async () => [await endUser.fill('eve'), await credits.fill('1')],
      'Save',
    );
    await page.locator('tr[data-row=eve]').getByText('0.00 used, 1.00 remaining').waitFor();
    const { body } = await gateway.call('/api/v1/end-users/ann', { key });
    const limit = { credits: 10, per: 'month' };
    expect(body).toMatchObject({
      data: { suspended: true, limit, inherited: ['limit', 'rateLimit'] },
    });
    const useDefaults = page.getByRole('button', { name: /^Use defaults/ });
    expect(await useDefaults.count()).toBe(2);
    await change(
      'Use defaults for “ann”',
      () => page.getByText('What was spent stays.').waitFor(),
      'Use defaults',
    );
    await rows.nth(1).getByText('Suspended').waitFor({ state: 'detached' });
    expect(await useDefaults.count()).toBe(1);
    expect(problems).toEqual([]);
  });

  it.each([
    ['copied', true, 'Copied', ' copied'],
    ['selected', false, 'Selected: copy it with Ctrl+C or ⌘C', ' Selected: copy it with'],
  ])('a new key and an id are %s on a page without a clipboard', async (...row) => {
    const [, canCopy, keyMessage, idMessage] = row;
    const caller = await gateway.newCaller({ credits: 100 });
    const jobId = await draw(caller.key);
    const { page, problems } = await openAs(caller.key);
    // A page that is served over plain HTTP, except from localhost, has no clipboard.
    await page.addInitScript(
      `Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined });
      ${canCopy ? '' : 'document.execCommand = () => false;'}`,
    );
    await page.goto(`${gateway.url}/console/jobs/${jobId}`);
    expect(await page.evaluate('navigator.clipboard')).toBeUndefined();
    const expectSelected = async (text: string) =>
      expect(await page.evaluate('getSelection().toString().trim()')).toBe(text);

    const id = page.locator(`button.id[title="Copy ${jobId}"]`).first();
    await id.click();
    await id.getByText(idMessage.trim()).waitFor();
    await expectSelected(jobId);

    await visit(page, 'API keys');
    await page.getByRole('button', { name: 'New key' }).click();
    const name = page.getByLabel('Name', { exact: true });
    await name.fill('app');
    await page.getByRole('button', { name: 'Create key' }).click();
    const dialog = page.getByRole('dialog');
    const key = (await dialog.locator('[data-secret]').textContent()) ?? '';
    expect(key).toMatch(/^gk_live_/);
    await dialog.getByRole('button', { name: 'Copy', exact: true }).click();
    await dialog.getByText(keyMessage, { exact: true }).waitFor();
    await expectSelected(key);
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    if (canCopy) {
      await page.getByRole('button', { name: 'New key' }).click();
      await name.press('Control+V');
      expect(await name.inputValue()).toBe(key);
    }
    expect(problems).toEqual([]);
  });

  it('signs out, with a message, a user that revokes the key of the session', async () => {
    const { key } = await gateway.newCaller({ credits: 1 });
    const { page } = await openAs(key);
    await visit(page, 'API keys');
    // The response to the revocation is delayed, so the event stream ends and the console reads the
    // session before the response arrives.
    const held = Promise.withResolvers<void>();
    await page.route('**/api-keys/*', async (route) => {
      const response = await route.fetch();
      await held.promise;
      await route.fulfill({ response });
    });
    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('button', { name: 'Revoke and sign out' }).click();
    await page.getByText('You revoked the key you were signed in with.').waitFor();
    held.resolve();
    await page.getByLabel('API key').waitFor();
  });

  it('lists the sessions of the user’s keys, and ends them', async () => {
    const { key } = await gateway.newCaller({ credits: 1 });
    const [one, two] = [await openAs(key), await openAs(key)];
    await visit(one.page, 'API keys');
    const lines = one.page.locator('tr[data-row^=ses_]');
    await expect.poll(() => lines.count()).toBe(2);
    await lines.getByText('Chrome on Linux').first().waitFor();
    expect(await lines.getByText(/^(?:127\.0\.0\.1|::1)$/).count()).toBe(2);
    await expectAccessible(one.page);
    const other = lines.filter({ hasNotText: 'this session' });
    await other.getByRole('button', { name: 'End' }).click();
    await one.page.getByRole('button', { name: 'End session' }).click();
    await expect.poll(() => lines.count()).toBe(1);
    await two.page.reload();
    await two.page.getByLabel('API key').waitFor();
    await lines.getByRole('button', { name: 'End' }).click();
    await one.page.getByRole('button', { name: 'End and sign out' }).click();
    await one.page.getByText('You ended your session.').waitFor();
  });

  it('shows when a rejected change may be sent again', async () => {
    const { key } = await gateway.newCaller({ credits: 1 });
    const { page } = await openAs(key);
    await visit(page, 'API keys');
    await page.route('**/api-keys/*', (route) =>
      route.fulfill({
        status: 429,
        headers: { 'Retry-After': '9' },
        json: { error: 'Rate limit exceeded. Please slow down.', message: 'Too many requests.' },
      }),
    );
    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('button', { name: 'Revoke and sign out' }).click();
    const timer = page.getByRole('alert').getByRole('timer');
    await timer.getByText(/try again in \d s/).waitFor();
  });

  it('disables, with a reason, actions that a key does not allow', async () => {
    const scopes = ['keys:read', 'studio:read', 'usage:read'] as const;
    const { key } = await gateway.newCaller({ credits: 1, scopes });
    const { page, problems } = await openAs(key);
    const expectDisabled = async (name: string): Promise<void> => {
      const button = page.getByRole('button', { name });
      await button.waitFor();
      expect(await button.isDisabled(), name).toBe(true);
    };
    await expectDisabled('Generate');
    await page.getByText('This key does not have the scope studio:image.').waitFor();
    await visit(page, 'API keys');
    for (const name of ['New key', 'Rotate', 'Limits', 'Revoke']) await expectDisabled(name);
    await page.getByText('This key does not have the scope keys:write.').first().waitFor();
    await visit(page, 'Webhooks');
    await expectDisabled('Show the secret');
    expect(problems).toEqual([]);
  });

  it('delivers a webhook again, shows the secret on request, and stores the address for account notices', async () => {
    const { key } = await gateway.newCaller({ credits: 10 });
    const { receiver } = gateway;
    let status = 500;
    const url = receiver.at('/again', (response) => response.writeHead(status).end());
    const jobId = await draw(key, { webhookUrl: url });
    await draw(key, { webhookUrl: url });
    // The first attempt and three repeated ones of each.
    await receiver.untilReceived('/again', 8);
    const { page, problems } = await openAs(key);
    await visit(page, 'Webhooks');
    const line = page.locator(`tr[data-row=${jobId}]`);
    await line.getByText('500', { exact: true }).waitFor();
    status = 204;
    const address = page.getByRole('region', { name: 'Addresses' }).getByRole('row').last();
    await address.getByText('2 failing').waitFor();
    await expectAccessible(page);
    await address.getByRole('button', { name: 'Redeliver all 2' }).click();
    await address.getByText('delivered').waitFor();
    await line.getByText('delivered').waitFor();
    expect(receiver.received('/again')).toHaveLength(10);
    await line.getByRole('button', { name: 'Redeliver' }).click();
    await receiver.untilReceived('/again', 11);
    await page.getByLabel('State').selectOption('failing');
    await page.getByText('No deliveries match').waitFor();
    await page.getByRole('button', { name: 'Show the secret' }).click();
    await page.getByText(/^whsec_/).waitFor();
    await page.getByRole('textbox', { name: /^URL/ }).fill(receiver.at('/notices'));
    await page.getByLabel('Notify when the balance is below').fill('5');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect
      .poll(async () => (await gateway.call('/api/v1/webhooks/notices', { key })).body)
      .toMatchObject({ url: receiver.at('/notices'), lowBalanceCredits: 5 });
    await page
      .getByLabel('Receiver URL')
      .fill(receiver.at('/test', (response) => response.writeHead(202).end('thank you')));
    await page.getByRole('button', { name: 'Send test' }).click();
    const test = page.getByRole('region', { name: 'Test' });
    await test.getByText('thank you').waitFor();
    await test.getByText('Request').click();
    await test.getByText(/webhook-signature: v1,/).waitFor();
    await expectAccessible(page);
    expect(problems).toEqual([]);
  });

  it('creates a webhook endpoint, replays what failed to its new URL, pauses and deletes it', async () => {
    const { key } = await gateway.newCaller({ credits: 10 });
    const { receiver } = gateway;
    const broken = receiver.at('/broken', (response) => response.writeHead(503).end());
    const mended = receiver.at('/mended');
    const { page, problems } = await openAs(key);
    await visit(page, 'Webhooks');
    await page.getByRole('button', { name: 'New endpoint' }).click();
    const form = page.getByRole('dialog');
    await form.getByRole('textbox', { name: /^URL/ }).fill(broken);
    await form.getByLabel(/A job was canceled/).check();
    await expectAccessible(page);
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByText(/^whsec_/).waitFor();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    const address = page.getByRole('region', { name: 'Addresses' }).getByRole('row').last();
    await address.getByText('unused').waitFor();
    await address.getByText('3 events').waitFor();
    await draw(key, {});
    await receiver.untilReceived('/broken', 4);
    await page.reload();
    await address.getByText('failing', { exact: true }).waitFor();
    await expectAccessible(page);
    await address.getByRole('button', { name: 'Change' }).click();
    await form.getByRole('textbox', { name: /^URL/ }).fill(mended);
    await form.getByRole('button', { name: 'Save' }).click();
    await address.getByText(mended).waitFor();
    await address.getByRole('button', { name: 'Replay' }).click();
    await page.getByText('1 webhooks are sent again').waitFor();
    await sweepOnce(gateway);
    await receiver.untilReceived('/mended');
    await address.getByText('delivered', { exact: true }).waitFor();
    await address.getByRole('button', { name: 'Test' }).click();
    await page.getByText('Test delivered: 204').waitFor();
    await address.getByRole('button', { name: 'Pause' }).click();
    await address.getByText('paused', { exact: true }).waitFor();
    await address.getByRole('button', { name: 'Delete' }).click();
    await form.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('region', { name: 'Addresses' }).waitFor({ state: 'detached' });
    const { body } = await gateway.call<{ data: object[] }>('/api/v1/webhook-endpoints', { key });
    expect(body.data).toEqual([]);
    expect(problems).toEqual([]);
  });

  it('finds models, sorts them by price, and tries one', async () => {
    const { page, problems } = await openAs();
    await visit(page, 'Models & prices');
    await page.getByLabel('Search').fill('image/generate');
    const studio = page.getByRole('region', { name: 'Studio models' });
    await studio.getByRole('button', { name: 'Price' }).click();
    const first = await studio.locator('tbody tr').first().getAttribute('data-row');
    await studio.getByRole('button', { name: 'Price' }).click();
    const last = await studio.locator('tbody tr').last().getAttribute('data-row');
    expect(last).toBe(first);
    await expectAccessible(page);
    await page.getByLabel('Search').fill('');
    await page.getByRole('button', { name: 'Video', exact: true }).click();
    const rows = studio.locator('tbody tr');
    await expect.poll(async () => (await rows.allInnerTexts()).join()).not.toContain('image/');
    await studio.getByRole('button', { name: 'Usual time' }).click();
    const times = (await rows.locator('[data-title="Usual time"]').allInnerTexts())
      .map((time) => Number.parseInt(time, 10))
      .filter((seconds) => !Number.isNaN(seconds));
    expect(times.length).toBeGreaterThan(1);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    await page.getByRole('button', { name: 'Image', exact: true }).click();
    await page.getByLabel('Search').fill('seedream 4 image/generate');
    await studio
      .getByText(/^from |per image \(\$/)
      .first()
      .waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await page.getByLabel('Search').fill('music/generate');
    await studio.getByText('2 prices').click();
    await studio.getByText('full adds a cover picture').waitFor();
    await page.getByLabel('Search').fill('seedream image/generate');
    await page.getByRole('button', { name: /^Try Seedream 4, image\/generate/ }).click();
    await page.getByRole('button', { name: 'Generate' }).waitFor();
    const picker = page.getByRole('combobox', { name: 'Model' });
    expect(await picker.textContent()).toContain('Seedream 4');
    await visit(page, 'Models & prices');
    const chat = page.getByRole('region', { name: 'Chat models' });
    const model = await chat.locator('tbody tr').nth(3).getAttribute('data-row');
    await chat.locator('tbody tr').nth(3).getByRole('link').click();
    await expect.poll(() => page.getByLabel('Model').inputValue()).toBe(model);
    expect(problems).toEqual([]);
  });

  it('shows an organization nothing of another', async () => {
    const newCaller = () => gateway.newCaller({ credits: 20 });
    const [one, other] = await Promise.all([newCaller(), newCaller()]);
    const jobId = await draw(one.key);
    const { page } = await openAs(one.key);
    await visit(page, 'Usage');
    await page.getByRole('row', { name: /Total 1/ }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, other.key);
    await visit(page, 'Usage');
    await page.getByText('No usage in this period').waitFor();
    await page.goto(`${gateway.url}/console/jobs/${jobId}`);
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('main').textContent()).not.toContain('lighthouse');
  });
});
