/** Stored files, the comparison of models and the search of everything, in a real browser. */
import { expect, it } from 'vitest';
import { describeInBrowser, expectFit, useConsole } from './browser.ts';

describeInBrowser('files, comparison and search in the console', () => {
  const { gateway, open, openAs } = useConsole();

  it('shares a result with people without a key until the link is revoked', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const jobId = await gateway.startImage({ prompt: 'a lighthouse' }, key);
    await gateway.untilDone(jobId, key);
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/jobs/${jobId}`);
    await page.getByRole('button', { name: 'Share' }).click();
    await page.getByLabel('Ends after').selectOption('30 days');
    await page.getByRole('button', { name: 'Create the link' }).click();
    const url = (await page.locator('[data-secret]').textContent()) ?? '';
    await page.getByRole('button', { name: 'I have copied it' }).click();
    const links = page.locator('section', { hasText: 'Share links' });
    await links.getByText(', opened 0 times, ends').waitFor();
    const guest = await open();
    await guest.page.goto(url);
    await guest.page.getByRole('img', { name: 'Result: Image · generate' }).waitFor();
    await expectFit(guest.page, 390);
    expect(await guest.page.getByRole('navigation').count()).toBe(0);
    await links.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await links.getByText('opened once, revoked').waitFor();
    await guest.page.reload();
    await guest.page.getByText('The share link has expired or was revoked.').waitFor();
    expect(problems).toEqual([]);
  });

  it('shows everything stored by type and day, passes a file on, and deletes files', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const jobId = await gateway.startImage({ prompt: 'a lighthouse' }, key);
    const speech = { text: 'The ferry leaves at nine.', title: 'Ferry' };
    const voiceover = '/api/v1/studio/voiceover/generate';
    expect((await gateway.call(voiceover, { key, body: speech })).status).toBe(200);
    await gateway.untilDone(jobId, key);
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/playground/image/edit`);
    await page
      .locator('input[type=file]')
      .first()
      .setInputFiles({
        name: 'buoy.png',
        mimeType: 'image/png',
        buffer: Buffer.from(
          'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
          'base64',
        ),
      });
    await expect.poll(() => page.getByLabel('Image URLs').inputValue()).toMatch(/^file_/);
    await page.getByRole('link', { name: 'Files' }).click();
    const tiles = page.getByRole('list', { name: 'Files' }).locator('.card');
    await expect.poll(() => tiles.count()).toBe(3);
    for (const [tab, count] of [
      ['Audio', 1],
      ['Videos', 0],
      ['Uploads', 1],
      ['Images', 2],
    ] as const) {
      await page.getByRole('button', { name: tab }).click();
      await expect.poll(() => tiles.count(), { message: tab }).toBe(count);
    }
    for (const width of [1920, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await expectFit(page, width);
    }
    const upload = tiles.filter({ hasText: 'buoy.png' });
    await upload.getByRole('button', { name: 'More actions' }).press('Enter');
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await expect.poll(() => tiles.count()).toBe(1);
    await tiles.getByText('Link expires in 24 h').waitFor();
    const more = tiles.getByRole('button', { name: 'More actions' });
    await more.press('Enter');
    await page.getByRole('menuitem', { name: 'Copy as code' }).press('Enter');
    await page.getByRole('dialog').getByText('"prompt":"a lighthouse"').waitFor();
    await page.keyboard.press('Escape');
    await more.press('Enter');
    await page.getByRole('menuitem', { name: 'Upscale' }).click();
    await expect.poll(() => page.getByLabel('Image URL').inputValue()).toContain(gateway.url);
    expect(problems).toEqual([]);
  });

  it('runs one prompt on several models, with the price before and after, and the time', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const { page, problems } = await openAs(key);
    await page.getByRole('link', { name: 'Compare' }).click();
    const models = page.getByRole('group', { name: /^Models/ });
    const chosen = models.getByRole('checkbox', { checked: true });
    for (const left of [1, 0]) {
      await chosen.first().press('Space');
      await expect.poll(() => chosen.count()).toBe(left);
    }
    expect(await page.getByRole('button', { name: /^Run/ }).isDisabled()).toBe(true);
    for (const name of ['Nano Banana', 'Seedream 4'])
      await models.getByRole('checkbox', { name, exact: true }).press('Space');
    await page.getByLabel('Prompt').fill('a harbour in fog');
    await page.getByText('at most 6.90 credits').waitFor();
    const pressed = Promise.withResolvers<void>();
    await page.route(/\/image\/generate$/, async (route) => {
      await pressed.promise;
      await route.continue();
    });
    await page.getByLabel('Prompt').press('Control+Enter');
    await page.getByRole('button', { name: 'Running…' }).waitFor();
    await page.getByLabel('Prompt').press('Control+Enter');
    pressed.resolve();
    for (const [name, credits] of [
      ['Nano Banana', '3.90'],
      ['Seedream 4', '3.00'],
    ] as const) {
      const column = page.getByRole('region', { name, exact: true });
      await column.getByRole('img', { name: 'Result: a harbour in fog' }).waitFor();
      await column.getByText(`${credits} credits charged`).waitFor();
      await column.getByText(/completed[\d.]+ m?s/).waitFor();
    }
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await expectFit(page, width);
    }
    const { body } = await gateway.call<{ data: object[] }>('/api/v1/studio/jobs', { key });
    expect(body.data).toHaveLength(2);
    expect(problems).toEqual([]);
  });

  it('runs one prompt on several chat models, with the tokens, time and price of each answer', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/playground/compare`);
    await page.getByRole('combobox', { name: 'Endpoint' }).selectOption('Chat');
    const chosen = page.getByRole('group', { name: /^Models/ }).getByRole('checkbox');
    await expect.poll(() => chosen.count()).toBe(2);
    for (const left of [1, 0]) {
      await chosen.first().press('Space');
      await expect.poll(() => chosen.count()).toBe(left);
    }
    expect(await page.getByRole('button', { name: /^Run/ }).isDisabled()).toBe(true);
    const models = ['gpt-5-mini', 'claude-haiku-4-5'];
    for (const model of models) await page.getByLabel('Add a model').fill(model);
    await expect.poll(() => chosen.count()).toBe(2);
    await page.getByText(/at most [\d.]+ credits \(/).waitFor();
    await page.getByLabel('Prompt').fill('What **lights** a harbour?');
    await page.getByLabel('Prompt').press('Control+Enter');
    for (const model of models) {
      const answer = page.getByRole('region', { name: model }).getByRole('article');
      await answer.getByText(/[\d.]+ credits/).waitFor();
      await answer.getByText(new RegExp(`${model}.* · first text after .* · .* tokens`)).waitFor();
      expect(await answer.locator('strong').first().textContent()).toBe('lights');
    }
    const { body } = await gateway.call<{ usage: object[] }>('/api/v1/usage', { key });
    expect(body.usage).toHaveLength(2);
    expect(problems).toEqual([]);
  });

  it('closes the menu of a phone and dialogs when a page is opened, also the current one', async () => {
    const { page } = await openAs();
    // Signing in opens a page, too.
    await page.getByRole('heading', { name: 'Playground', level: 1 }).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const menu = page.getByRole('checkbox', { name: 'Menu' });
    const pages = page.getByRole('navigation', { name: 'Pages' });
    const openFromMenu = async (name: string) => {
      await menu.press('Space');
      await pages.getByRole('link', { name }).click();
      await pages.waitFor({ state: 'hidden' });
    };
    for (const name of ['Jobs', 'Jobs', 'API keys']) await openFromMenu(name);
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByRole('dialog').waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').waitFor();
    await page.goBack();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });

  it('finds pages, documentation, models, keys and jobs by keyboard', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const jobId = await gateway.startImage({ prompt: 'a striped kingfisher' }, key);
    await gateway.untilDone(jobId, key);
    const { page, problems } = await openAs(key);
    const search = page.getByRole('combobox', { name: 'Search', exact: true });
    const find = async (text: string, option: RegExp) => {
      await page.keyboard.press('Control+k');
      await search.fill(text);
      await page.getByRole('option', { name: option }).waitFor();
      return page.keyboard.press('Enter');
    };
    await page.getByRole('button', { name: 'Search', exact: true }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('option', { name: 'API reference' }).waitFor();
    await expectFit(page, 1280);
    await page.keyboard.press('Escape');
    await search.waitFor({ state: 'detached' });
    await find('webh', /^Webhooks$/);
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor();
    await find('seedream 4 generate', /^Seedream 4/);
    const picker = page.getByRole('combobox', { name: 'Model' });
    await expect.poll(() => picker.textContent()).toContain('Seedream 4');
    await find('gpt-5-mini', /^gpt-5-mini/);
    await expect.poll(() => page.getByLabel('Model').inputValue()).toBe('gpt-5-mini');
    await find('kingfisher', /^a striped kingfisher/);
    await page.waitForURL(`**/console/jobs/${jobId}`);
    await page.keyboard.press('Control+k');
    await search.fill('nothing is named like this');
    await page.getByText('Nothing found').waitFor();
    expect(problems).toEqual([]);
  });
});
