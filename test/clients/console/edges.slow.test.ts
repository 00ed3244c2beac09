/** The console at its edges: no network, missing files after an upgrade, long chats, tables of others. */
import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { describeInBrowser, expectFit, signIn, useConsole } from './browser.ts';

describeInBrowser('the console at its edges', () => {
  const { gateway, openAs, open } = useConsole();

  it('says offline that nothing was sent, keeps the form, and starts nothing later by itself', async () => {
    const { key } = await gateway.newCaller({ credits: 1000 });
    const { page } = await openAs(key);
    await page.getByRole('link', { name: 'Chat' }).click();
    await page.getByLabel('Your message').waitFor();
    await page.getByRole('link', { name: 'Playground', exact: true }).click();
    const prompt = page.getByLabel('Prompt', { exact: false }).first();
    await prompt.fill('a buoy without a network');
    const generate = page.getByRole('button', { name: 'Generate' });
    await page
      .getByText(/at most/)
      .first()
      .waitFor();
    await page.context().setOffline(true);
    await page.getByText('This device is offline. The console keeps your input').waitFor();
    await generate.click();
    await page.getByText('This device is offline. Nothing was sent').waitFor();
    await expect.poll(() => generate.isEnabled()).toBe(true);
    expect(await prompt.inputValue()).toBe('a buoy without a network');
    await page.getByRole('link', { name: 'Chat' }).click();
    const message = page.getByLabel('Your message');
    await message.fill('Is anybody there?');
    await message.press('Enter');
    await page.getByText('This device is offline. Nothing was sent').waitFor();
    expect(await message.inputValue()).toBe('Is anybody there?');
    await page.context().setOffline(false);
    await page.getByRole('link', { name: 'Jobs' }).click();
    await page.getByText('No jobs yet').waitFor();
    const ledger = await gateway.call('/api/v1/usage', { key });
    expect(ledger.body).toMatchObject({ usage: [] });
    await page.getByRole('link', { name: 'Playground', exact: true }).click();
    await expect.poll(() => prompt.inputValue()).toBe('a buoy without a network');
    await generate.click();
    await page.locator('[data-result="imageGenerate"]').waitFor();
    const jobs = await gateway.call('/api/v1/studio/jobs', { key });
    expect(jobs.body.data).toHaveLength(1);
  });

  it('loads a page whose file is missing for a moment, reloads itself once, and opens other pages', async () => {
    const { page } = await openAs();
    let isMissing: () => boolean = () => false;
    await page.route(/\/console\/assets\/usage-[^/]*\.js$/, (route) =>
      isMissing() ? route.fulfill({ status: 404 }) : route.continue(),
    );
    const usage = page.getByRole('heading', { name: 'Usage', level: 1 });
    const openUsage = () => page.getByRole('link', { name: 'Usage' }).click();
    const isSamePage = () => page.evaluate(() => Reflect.get(globalThis, 'isSame') === true);
    const markPage = () => page.evaluate(() => Reflect.set(globalThis, 'isSame', true));
    await markPage();
    const endMs = Date.now() + 700;
    isMissing = () => Date.now() < endMs;
    await openUsage();
    await usage.waitFor();
    expect(await isSamePage()).toBe(true);

    // As after an upgrade: the page that the gateway serves now has other files.
    await page.goto(`${gateway.url}/console/keys`);
    await markPage();
    isMissing = () => true;
    page.once('load', () => {
      isMissing = () => false;
    });
    await openUsage();
    await usage.waitFor();
    expect(await isSamePage()).toBe(false);

    await page.goto(`${gateway.url}/console/keys`);
    isMissing = () => true;
    await openUsage();
    await page.getByText('This page could not be loaded').waitFor();
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByRole('heading', { name: 'Files', level: 1 }).waitFor();
    isMissing = () => false;
    await openUsage();
    await usage.waitFor();
  });

  it('follows a chat to its end, unless the reader has scrolled up', async () => {
    const { page } = await openAs();
    // The default model arrives late, and must not change what the user types meanwhile.
    let sendPrices: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (sendPrices = resolve));
    await page.route('**/pricing*', (route) => released.then(() => route.continue()));
    await page.getByRole('link', { name: 'Chat' }).click();
    // The first page may have read the prices before they were held.
    await page.reload();
    await page.getByRole('heading', { name: 'Chat', level: 1 }).waitFor();
    const model = page.getByLabel('Model');
    expect(await model.isEnabled()).toBe(false);
    sendPrices();
    await model.fill('gpt-5-mini');
    const message = page.getByLabel('Your message');
    const log = page.getByRole('article', { name: 'assistant' });
    const fromEnd = `document.documentElement.scrollHeight - innerHeight - scrollY`;
    const send = async (text: string, count: number): Promise<void> => {
      await message.fill(text);
      await message.press('Enter');
      await expect.poll(() => log.getByText(/credits/).count()).toBe(count);
    };
    for (const count of [1, 2, 3]) await send(`${'a long question\n'.repeat(12)}${count}`, count);
    await expect.poll(() => page.evaluate(fromEnd)).toBeLessThan(60);
    await page.getByRole('button', { name: 'To the end' }).waitFor({ state: 'detached' });
    await page.evaluate('scrollTo(0, 0)');
    await page.getByRole('button', { name: 'To the end' }).click();
    await expect.poll(() => page.evaluate(fromEnd)).toBeLessThan(60);
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByLabel('System prompt').fill('Answer in verse.');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Settings (1)' }).waitFor();
    await send('مرحبا بكم, Gateway ثم 3.90!', 4);
    const direction = `getComputedStyle([...document.querySelectorAll('article.user')].at(-1)).direction`;
    expect(await page.evaluate(direction)).toBe('rtl');
    await expectFit(page, 1280);
    for (const width of [720, 390]) {
      await page.setViewportSize({ width, height: 844 });
      await expectFit(page, width);
    }
  });

  it('keeps prompt and chat for another key of the same organization only', async () => {
    const first = await gateway.newCaller({ credits: 100 });
    const created = await gateway.call('/api/v1/api-keys', {
      method: 'POST',
      key: first.key,
      body: { name: 'second' },
    });
    const { key: second } = created.body as unknown as { key: string };
    const { page } = await openAs(first.key);
    const prompt = page.getByLabel('Prompt', { exact: false }).first();
    await prompt.fill('a long prompt that is kept');
    await page.getByRole('link', { name: 'Chat' }).click();
    await page.getByLabel('Your message').fill('Hello');
    await page.getByLabel('Your message').press('Enter');
    await page.getByRole('article', { name: 'user' }).waitFor();
    const signOut = () => page.getByRole('button', { name: 'Sign out' }).click();
    await signOut();
    await signIn(page, second);
    await page.getByRole('article', { name: 'user' }).waitFor();
    await page.getByRole('link', { name: 'Playground', exact: true }).click();
    await expect.poll(() => prompt.inputValue()).toBe('a long prompt that is kept');
    await signOut();
    await signIn(page, (await gateway.newCaller({ credits: 1 })).key);
    await prompt.waitFor();
    expect(await prompt.inputValue()).not.toContain('kept');
    await page.getByRole('link', { name: 'Chat' }).click();
    await page.getByText('No messages yet').waitFor();
  });

  it('shows times by the clock of the gateway if that of the browser is wrong', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    await gateway.untilDone(await gateway.startImage({ prompt: 'a clock' }, key), key);
    const { page } = await open();
    await page.clock.install({ time: Date.now() + 3 * 3_600_000 });
    await page.reload();
    await signIn(page, key);
    await page.getByRole('link', { name: 'Jobs' }).click();
    await expect
      .poll(() => page.getByRole('main').locator('time').first().textContent())
      .toMatch(/^(now|\d+ min ago)$/);
  });

  it('shows a table with its bad cells, and starts the other rows', async () => {
    const { key } = await gateway.newCaller({ credits: 1000 });
    const { page } = await openAs(key);
    await page.getByRole('link', { name: 'Bulk' }).click();
    const rows = [
      'id;use;prompt;aspectRatio;imageUrls',
      'a;image/generate;ein Café mit 24" Schirm;1:1;',
      'b;image/generate;a boat;7:77;',
      ';;;;',
      'c;image/generate;a lamp;1:1;https://cdn.example.com/a%20lamp.png?x=1;too much',
    ];
    const form = page.getByRole('region', { name: 'New bulk job' });
    const choose = (lines: readonly string[], encoding: BufferEncoding) =>
      form.getByLabel('File').setInputFiles({
        name: 'boats.csv',
        mimeType: 'text/csv',
        buffer: Buffer.from(lines.join('\r\n'), encoding),
      });
    await choose(rows, 'latin1');
    const table = page.getByRole('region', { name: 'Items' });
    await table.getByText('ein Café mit 24" Schirm').waitFor();
    await page.getByText('1 empty row was skipped: 4.').waitFor();
    await page.getByText('was read as Windows-1252').waitFor();
    await table.locator('[data-row="3"] .bad-cell').getByText('7:77').waitFor();
    await table.locator('[data-row="5"]').getByText('a lamp.png').waitFor();
    await table
      .locator('[data-row="5"]')
      .getByText(/column 6, which has no name/)
      .waitFor();
    await page.getByText('2 of 3 rows cannot start.').waitFor();
    await expectFit(page, 1280);
    await page.setViewportSize({ width: 390, height: 844 });
    await expectFit(page, 390);
    await page.setViewportSize({ width: 1280, height: 900 });
    await choose(['id,use,prompt', 'a,image/generate,"open'], 'utf8');
    await page.getByText('Row 2 has a cell that begins with a quote').waitFor();
    await choose(rows, 'latin1');
    await page.getByRole('button', { name: 'Start the other 1' }).click();
    await page.getByRole('heading', { name: 'boats', level: 1 }).waitFor();
    await page.getByText('1 completed of 1').waitFor();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Results as CSV' }).click(),
    ]);
    expect(await readFile(await file.path(), 'utf8')).toMatch(/^\uFEFF"index","id"[^]*,"a",1,/);
  });
});
