/** The pages of callers in a real browser: sign-in, generation with each step, chat, jobs. */
import type { Page, Request } from 'playwright-core';
import { createServer, connect, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { until } from '../../harness/until.ts';
import { describeInBrowser, expectAccessible, expectFit, signIn, useConsole } from './browser.ts';

/** Starts a proxy, whose URL stays the same when `port` becomes that of another process. */
async function openPlace(port: number) {
  const server = createServer((near) => {
    const far = connect(place.port, '127.0.0.1');
    for (const end of [near, far]) {
      end.on('error', () => {
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const place = { url, port, close: () => void server.close() };
  return place;
}

describeInBrowser('the console of a caller', () => {
  const { gateway, open, openAs } = useConsole();
  const getPrompt = (page: Page) => page.getByLabel('Prompt', { exact: false }).first();
  const generate = (page: Page) => page.getByRole('button', { name: 'Generate' });
  /** Opens the steps of the shown job, which are folded below the result. */
  async function openSteps(page: Page) {
    const steps = page.getByRole('list', { name: 'Steps' });
    await page.locator('.fold > summary').click();
    return steps;
  }
  /** Waits for the response to the submitted form, which is not that of an estimate. */
  const awaitSubmit = (page: Page) => page.waitForResponse(/\/studio\/image\/generate$/);
  const isStream = (request: Request) => request.url().endsWith('/studio/jobs/events');
  /** Collects the open event streams of the pages of a context. */
  function trackStreams(page: Page): Set<Request> {
    const streams = new Set<Request>();
    const context = page.context();
    context.on('response', (response) => {
      if (isStream(response.request())) streams.add(response.request());
    });
    context.on('requestfailed', (request) => streams.delete(request));
    context.on('requestfinished', (request) => streams.delete(request));
    return streams;
  }

  it('arrives compressed in an encoding that the browser accepts', async () => {
    const page = await (await fetch(`${gateway.url}/console`)).text();
    const [script = ''] = /\/console\/assets\/[\w.-]+\.js/.exec(page) ?? [];
    const measureSize = async (encoding: string): Promise<number> => {
      const { headers } = await fetch(gateway.url + script, {
        headers: { 'accept-encoding': encoding },
      });
      expect(headers.get('content-encoding')).toBe(encoding === 'identity' ? null : encoding);
      expect(headers.get('vary')).toContain('Accept-Encoding');
      expect(headers.get('content-type')).toContain('text/javascript');
      return Number(headers.get('content-length'));
    };
    const gzip = await measureSize('gzip');
    expect(gzip).toBeLessThan((await measureSize('identity')) * 0.4);
    expect(await measureSize('br')).toBeLessThan(gzip);
  });

  it('loads at most 150 kB for the first page, and menus when they are opened by keyboard', async () => {
    const { page, problems } = await open();
    const assets = new Set<string>();
    page.on('request', (request) => {
      if (request.url().includes('/console/assets/')) assets.add(request.url());
    });
    await page.reload();
    await signIn(page, gateway.caller.key);
    const model = page.getByRole('combobox', { name: 'Model' });
    await model.waitFor();
    await page.waitForLoadState('load');
    // docs/performance.md has the time on a quiet machine.
    const paint = `performance.getEntriesByName('first-contentful-paint')[0].startTime`;
    expect(await page.evaluate(paint)).toBeLessThan(30_000);
    let size = 0;
    for (const url of assets) {
      const { headers } = await fetch(url, { headers: { 'accept-encoding': 'gzip' } });
      size += Number(headers.get('content-length'));
    }
    expect(size).toBeGreaterThan(50_000);
    expect(size).toBeLessThan(150_000);
    await model.press('ArrowDown');
    const options = page.getByRole('option', { name: /Seedream 4/ });
    await options.first().waitFor();
    await page.keyboard.press('Escape');
    await options.first().waitFor({ state: 'hidden' });
    await page.getByRole('combobox', { name: 'Model' }).press('Enter');
    await options.first().waitFor();
    expect(problems).toEqual([]);
  });

  it.each([
    ['image', 'a lighthouse at dawn', 'Run this: 3.90 credits'],
    ['video', 'waves at night', /^Run this: [\d.]+ credits$/],
    ['music', 'a calm song about the sea', /^Run this: [\d.]+ credits$/],
  ])('opens with an example for a new account, and runs it (%s)', async (kind, prompt, button) => {
    const { key } = await gateway.newCaller({ credits: 1000 });
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/playground/${kind}/generate`);
    await expect.poll(() => getPrompt(page).inputValue()).toBe(prompt);
    if (kind !== 'music') {
      await page.getByText(/made by the provider sandbox. The model usually takes \d+ s/).waitFor();
      await page.getByRole('img', { name: `Example: ${prompt}` }).waitFor();
      const readWidth = () => page.evaluate(`document.querySelector('.media img').naturalWidth`);
      await expect.poll(readWidth).toBeGreaterThan(600);
    }
    await page.getByRole('button', { name: button }).click();
    await page.locator(`[data-result="${kind}Generate"]`).waitFor();
    expect(await page.getByRole('button', { name: /^Run this/ }).count()).toBe(0);
    expect(problems).toEqual([]);
  });

  it('says which credits are missing before the click, and who grants them', async () => {
    const { key } = await gateway.newCaller({ credits: 1 });
    const { page, problems } = await openAs(key);
    await page.getByText('2.90 credits are missing. The operator of this gateway').waitFor();
    expect(await page.getByRole('button', { name: 'Not enough credits' }).isDisabled()).toBe(true);
    expect(await page.getByRole('button', { name: /^Run this/ }).count()).toBe(0);
    await expectAccessible(page);
    expect(problems).toEqual([]);
  });

  it('explains a wrong key, and stores no key in the browser', async () => {
    const { page } = await open();
    await expectAccessible(page);
    await page.getByLabel('API key').fill('gk_live_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This is not a valid API key').waitFor();
    await signIn(page, gateway.caller.key);
    const kept = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]));
    const cookies = await page.context().cookies();
    expect(kept + JSON.stringify(cookies)).not.toContain(gateway.caller.key);
    expect(cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite])).toEqual([
      [true, 'Strict'],
    ]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
  });

  it('generates an image, and shows the price before, each step during and the image after the job', async () => {
    const { page, problems } = await openAs();
    await getPrompt(page).fill('a lighthouse at dawn [[slow:600s]]');
    await page.getByText('at most 3.90 credits').waitFor();
    await getPrompt(page).press('Control+Enter');
    await page.getByText('fal is working on it. 3.9 credits are reserved').waitFor();
    const steps = await openSteps(page);
    await steps.locator('[data-step=wait][data-state=running]').waitFor();
    await gateway.sandbox.clearFaults();
    await steps.locator('[data-step=charge][data-state=done]').waitFor();
    const picture = page.getByRole('img', { name: 'Result: a lighthouse at dawn' });
    await picture.waitFor();
    await expect
      .poll(() => picture.evaluate((image) => Reflect.get(image, 'naturalWidth')))
      .toBeGreaterThan(0);
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Jobs' }).click();
    const rows = page.getByRole('list', { name: 'Jobs' }).getByRole('link');
    await rows.getByText('completed').first().waitFor();
    await rows.getByText('a lighthouse at dawn').waitFor();
    await expect
      .poll(() => page.locator('[data-total]').getAttribute('data-total'))
      .toBe(String(await rows.count()));
    await page.keyboard.press('j');
    expect(
      await page.locator('a[data-job]').first().evaluate('document.activeElement.dataset.job'),
    ).toBe(await page.locator('a[data-job]').first().getAttribute('data-job'));
    await page.keyboard.press('/');
    await page.keyboard.type('HOUSE at dawn');
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByLabel('Search jobs').fill('no job has this text');
    await page.getByText('No jobs match').waitFor();
    await expectAccessible(page);
    expect(problems).toEqual([]);
  });

  it('opens with an example, loads an earlier result into the form, and passes a result on', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const { page, problems } = await openAs(key);
    await page.getByRole('button', { name: 'Run this: 3.90 credits' }).waitFor();
    expect(await getPrompt(page).inputValue()).toBe('a lighthouse at dawn');
    const model = page.getByRole('combobox', { name: 'Model' });
    await model.click();
    await expectAccessible(page);
    await page.getByRole('option', { name: /Seedream 4 3.00 \/ image 10 s/ }).click();
    await page.getByText('at most 3.00 credits').waitFor();
    await generate(page).click();
    await page.getByRole('img', { name: 'Result: a lighthouse at dawn' }).waitFor();
    await getPrompt(page).fill('a red buoy');
    const count = page.getByLabel('Number of images');
    await count.fill('2');
    await page.getByText('at most 6.00 credits').waitFor();
    await generate(page).click();
    await page.getByRole('img', { name: 'Result: a red buoy' }).first().waitFor();

    // The form opens with the options of the example, not with those of the latest request.
    const tab = await page.context().newPage();
    await tab.goto(`${gateway.url}/console`);
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByRole('list', { name: 'Files' }).waitFor();
    await page.getByRole('link', { name: 'Playground' }).click();
    for (const opened of [tab, page]) {
      await opened.getByRole('img', { name: 'Result: a red buoy' }).first().waitFor();
      await expect.poll(() => getPrompt(opened).inputValue()).toBe('a red buoy');
      await opened.getByText('at most 3.90 credits').waitFor();
      expect(await opened.getByLabel('Number of images').inputValue()).toBe('');
    }
    const strip = page.getByRole('navigation', { name: 'Latest results' });
    await strip.getByRole('button', { name: 'Load a red buoy' }).click();
    await page.getByText('at most 6.00 credits').waitFor();
    expect(await count.inputValue()).toBe('2');
    await strip.getByRole('button', { name: 'Load a lighthouse at dawn' }).click();
    await page.getByRole('img', { name: 'Result: a lighthouse at dawn' }).waitFor();
    await expect.poll(() => getPrompt(page).inputValue()).toBe('a lighthouse at dawn');
    expect(await model.textContent()).toContain('Seedream 4');
    expect(await count.inputValue()).toBe('');
    // A result of the strip is passed on to the form that is shown, whose options are reset.
    await count.fill('3');
    await strip.getByRole('button', { name: 'More actions' }).first().click();
    await page.getByRole('menuitem', { name: 'Use as input' }).click();
    await expect.poll(() => page.getByLabel('Image URLs').inputValue()).toContain(gateway.url);
    await page.getByText('at most 3.90 credits').waitFor();
    expect(await count.inputValue()).toBe('');

    await page.getByRole('button', { name: 'Upscale' }).click();
    await expect.poll(() => page.getByLabel('Image URL').inputValue()).toContain(gateway.url);
    await generate(page).click();
    await page.getByRole('img', { name: /Result: Image · upscale/ }).waitFor();
    await page.getByText(/\d+ × \d+ · .*link expires in \d+ (min|h)/).waitFor();
    await expectAccessible(page);
    const actions = page.getByRole('figure').getByRole('button', { name: 'More actions' });
    await actions.press('Enter');
    await page.getByRole('menuitem', { name: 'Copy as code' }).click();
    await page.getByRole('dialog').getByText('/api/v1/studio/image/upscale \\').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Python' }).click();
    await page.getByRole('dialog').getByText("run('image/upscale', {").waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Close' }).click();
    await actions.press('Enter');
    await expect
      .poll(() => page.evaluate('document.activeElement?.textContent'))
      .toContain('Copy URL');
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('The media of this job were deleted.').waitFor();
    expect(problems).toEqual([]);
  });

  it('keeps the chosen theme, without a flash of the other', async () => {
    const { page } = await openAs();
    await generate(page).waitFor();
    const paper = () => page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
    const light = await paper();
    await page.getByLabel('Theme').selectOption('dark');
    expect(await paper()).not.toBe(light);
    await page.reload();
    expect(await paper()).not.toBe(light);
    await generate(page).waitFor();
    await expectAccessible(page);
  });

  it('follows a video job after a reload, and cancels it', async () => {
    const { key } = await gateway.newCaller({ credits: 10_000 });
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/playground/video/generate`);
    await getPrompt(page).fill('waves at night [[slow:3s]]');
    await generate(page).click();
    await (await openSteps(page)).locator('[data-step=submit]').waitFor();
    await page.reload();
    const steps = await openSteps(page);
    await steps.locator('[data-step=wait]').waitFor();
    await steps.locator('[data-step=charge][data-state=done]').waitFor();
    expect(await getPrompt(page).inputValue()).toContain('waves at night');

    // The link leads to the former job until the new one is shown.
    const link = page.getByRole('link', { name: 'View job' });
    const former = await link.getAttribute('href');
    await getPrompt(page).fill('waves at noon [[slow:600s]]');
    await generate(page).click();
    await expect.poll(() => link.getAttribute('href')).not.toBe(former);
    await link.click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await expect
      .poll(() => page.locator('.head .state').first().textContent())
      .toMatch(/completed|canceled/);
    await expectAccessible(page);
    expect(problems).toEqual([]);
  });

  it('starts one job for two clicks, and another one when the form has changed', async () => {
    const { page } = await openAs();
    const submits = () => gateway.sandbox.submits({ match: 'a twice clicked buoy' });
    await getPrompt(page).fill('a twice clicked buoy');
    // A second click counts as a repetition for ten seconds, which pass on a busy machine.
    await page.clock.setFixedTime(new Date());
    await generate(page).click();
    await until(async () => (await submits()).length === 1);
    const repeated = awaitSubmit(page);
    await generate(page).click();
    expect((await repeated).headers()['idempotent-replayed']).toBe('true');
    await getPrompt(page).fill('a twice clicked buoy at night');
    await generate(page).click();
    await until(async () => (await submits()).length === 2);
  });

  it('shows why a job failed, and that it was not charged', async () => {
    const { page } = await openAs();
    await getPrompt(page).fill('[[fail:422]] a picture');
    await generate(page).click();
    await page.getByText('nothing was charged').waitFor();
    const steps = await openSteps(page);
    await steps.locator('[data-step=release]').waitFor();
    const failed = steps.locator('[data-state=failed]');
    expect(await failed.getAttribute('data-step')).toBe('wait');
    const error = page.getByText('The provider rejected the input');
    await error.waitFor();
    expect(await error.count()).toBe(1);
  });

  it('explains a job whose provider is silent, filters by its tag, and runs a failed one again', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const { page, problems } = await openAs(key);
    const body = { prompt: '[[slow:600s]] a silent ship', metadata: { team: 'red' } };
    const jobId = await gateway.startImage(body, key);
    // test/studio/job-explanation.test.ts has the real statement, which a provider soon changes.
    const why = 'fal has not confirmed the call. Decided by 06:23 UTC; nothing is charged.';
    await page.route('**/timeline', async (route) => {
      const json = await (await route.fetch()).json();
      Object.assign(json.data, { why, outcomeUnknown: true });
      json.data.steps.at(-1).state = 'running';
      await route.fulfill({ json });
    });
    await page.goto(`${gateway.url}/console/jobs/${jobId}`);
    const statement = page.locator('.unknown').getByText('fal has not confirmed the call');
    const time = statement.locator('time');
    expect(await time.getAttribute('datetime')).toMatch(/T06:23:00\.000Z$/);
    expect(await statement.innerText()).not.toContain('UTC');
    await page.locator('[data-state=running]').getByText('not confirmed').waitFor();
    await expectFit(page, 1280);
    await page.getByRole('link', { name: 'team=red' }).click();
    await page.getByRole('list', { name: 'Jobs' }).getByText('a silent ship').waitFor();

    await page.unroute('**/timeline');
    const failedId = await gateway.startImage({ prompt: '[[fail:422]] a picture' }, key);
    await gateway.untilDone(failedId, key);
    await page.goto(`${gateway.url}/console/jobs/${failedId}`);
    await page.getByText('Nothing was charged; 3.9 credits were released.').waitFor();
    await page.getByRole('button', { name: 'Edit the prompt' }).waitFor();
    expect(await page.getByRole('button', { name: /^Run again/ }).count()).toBe(0);
    const doneId = await gateway.startImage({ prompt: 'a picture' }, key);
    await gateway.untilDone(doneId, key);
    await page.goto(`${gateway.url}/console/jobs/${doneId}`);
    // Each page starts a job of its own.
    const opened = [page.url()];
    for (const count of [2, 3]) {
      await page.getByRole('button', { name: 'Run again · 3.90 credits' }).click();
      await page.waitForURL((url) => !opened.includes(url.href));
      opened.push(page.url());
      expect(opened).toHaveLength(count);
      await page.locator('[data-result="imageGenerate"]').waitFor();
    }
    await gateway.sandbox.clearFaults();
    await gateway.untilDone(jobId, key);
    expect(problems).toEqual([]);
  });

  it('runs a recipe of a pipeline, and shows its steps as a graph', async () => {
    const { key } = await gateway.newCaller({ credits: 1000 });
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/playground/pipelines`);
    await page.getByRole('button', { name: 'Picture, film and voice' }).click();
    await page.getByText(/at most 1\d\d\.\d\d credits/).waitFor();
    await expectFit(page, 1280);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const graph = page.getByRole('region', { name: 'Pipeline' });
    for (const step of ['art', 'film', 'voice', 'cut'])
      await graph.locator(`[data-node=${step}][data-state=completed]`).waitFor();
    await graph.getByRole('img', { name: 'Result of art' }).waitFor();
    await graph.getByText('after film, voice').waitFor();
    await page.getByRole('link', { name: 'View job' }).click();
    await page.getByRole('button', { name: /Run again · 1/ }).waitFor();
    await graph.getByText('3.90 credits').waitFor();
    await expectFit(page, 1280);
    const first = page.url();
    await page.getByRole('button', { name: 'Resume or fork' }).click();
    await page.getByLabel('Run again').selectOption('cut');
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Start' }).click();
    await expect.poll(() => page.url()).not.toBe(first);
    await graph.locator('[data-node=cut][data-state=completed]').waitFor();
    const jobId = page.url().split('/').at(-1);
    const { body } = await gateway.call(`/api/v1/studio/jobs/${jobId}`, { key });
    expect(body).toMatchObject({ data: { parentJobId: first.split('/').at(-1) } });
    await page.getByText('Copy as code').click();
    await page.getByText('/api/v1/studio/pipelines \\').waitFor();
    expect(await page.getByText(/resumes|"async"/).count()).toBe(1);
    await page.getByRole('button', { name: /Run again · 1/ }).waitFor();
    await page.getByRole('button', { name: 'Open in the playground' }).click();
    await page.getByText(/at most 1\d\d\.\d\d credits/).waitFor();
    await graph.locator('[data-node=cut][data-state=completed]').waitFor();
    // The graph of another recipe does not stay beside the form.
    await page.getByRole('button', { name: 'Product picture, cut out and enlarged' }).click();
    await page.getByText('The result appears here').waitFor();
    expect(problems).toEqual([]);
  });

  it('shows the pictures of a step that waits, and approves one with another prompt', async () => {
    const art = { id: 'art', use: 'image/generate', body: { prompt: 'a pier', numImages: 3 } };
    const imageUrls = [{ $from: 'art', output: 'chosen' }];
    const edit = { id: 'edit', use: 'image/edit', body: { prompt: 'at night', imageUrls } };
    const { body } = await gateway.call('/api/v1/studio/pipelines', {
      body: { steps: [art, { ...edit, approve: true }], async: true },
    });
    const { jobId } = body.data;
    const { page, problems } = await openAs();
    // The count in the side bar leads to the list, and the list to the job.
    await page.getByRole('link', { name: 'Waiting for you 1' }).click();
    await page.locator(`a[href$="${jobId}"]`).first().click();
    const card = page.getByRole('region', { name: 'Decision about edit' });
    const approve = card.getByRole('button', { name: /^Approve for [\d.]+ credits$/ });
    expect(await approve.isDisabled()).toBe(true);
    await card.getByRole('radio').first().focus();
    // The arrow keys choose.
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    expect(await card.getByRole('radio', { name: 'art 3' }).isChecked()).toBe(true);
    await card.getByRole('button', { name: 'Change the prompt' }).click();
    await card.getByLabel('Prompt').fill('at dawn');
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await expectFit(page, width);
    }
    await approve.click();
    await page.getByText('edit approved').waitFor();
    await card.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Waiting for you' }).waitFor({ state: 'detached' });
    await gateway.untilDone(jobId);
    const { body: timeline } = await gateway.call<{ data: { request: { steps: object[] } } }>(
      `/api/v1/studio/jobs/${jobId}/timeline`,
    );
    expect(timeline.data.request.steps[1]).toMatchObject({
      body: { prompt: 'at dawn', imageUrls: [{ $from: 'art', output: 2 }] },
    });
    expect(problems).toEqual([]);
  });

  it('builds a pipeline by clicking: steps, results of earlier steps, and messages at their fields', async () => {
    const { key } = await gateway.newCaller({ credits: 1000 });
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/playground/pipelines`);
    await page.getByRole('button', { name: 'Product picture, cut out and enlarged' }).click();
    const steps = page.getByRole('list', { name: 'Steps of the pipeline' }).getByRole('listitem');
    await expect.poll(() => steps.count()).toBe(3);
    await page.getByRole('button', { name: 'Remove large' }).click();
    await page.getByRole('button', { name: 'Add a step' }).click();
    const last = steps.last();
    await last.getByLabel('Name').fill('film');
    await last.getByLabel('Does').selectOption('video/generate');
    await last.getByLabel('Prompt', { exact: true }).fill('');
    await page.getByText(/steps\.2\.body\.prompt/).waitFor();
    await last.getByLabel('Prompt', { exact: true }).fill('the mug turns');
    const picture = last.getByRole('combobox', { name: /^Image URL from/ });
    await picture.selectOption('Result of cutout');
    // A new name of a step is that in the references to it.
    await steps.nth(1).getByLabel('Name').fill('alone');
    await page.getByText(/at most \d+\.\d\d credits/).waitFor();
    await expectFit(page, 1280);
    await page.setViewportSize({ width: 390, height: 844 });
    await expectFit(page, 390);
    await page.getByText('JSON', { exact: true }).click();
    const json = JSON.parse(await page.getByLabel('Steps', { exact: true }).inputValue());
    expect(json.steps.map(({ id, use }: { id: string; use: string }) => [id, use])).toEqual([
      ['art', 'image/generate'],
      ['alone', 'image/remove-background'],
      ['film', 'video/generate'],
    ]);
    expect(json.steps[2].body).toMatchObject({ imageUrl: { $from: 'alone' } });
    await page.getByText('Form', { exact: true }).click();
    expect(await picture.inputValue()).toBe('alone');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const graph = page.getByRole('region', { name: 'Pipeline' });
    await graph.locator('[data-node=film][data-state=completed]').waitFor();
    expect(problems.filter((text) => !text.includes('400'))).toEqual([]);
  });

  it('starts a bulk job from a CSV file after a preview, and retries its failed items', async () => {
    const { key } = await gateway.newCaller({ credits: 1000 });
    const { page, problems } = await openAs(key);
    await page.getByRole('link', { name: 'Bulk' }).click();
    const prompts = ['a red boat', '"a ""blue"", small boat"', '[[fail:422]] a lost boat'];
    const rows = prompts.map((prompt) => `image/generate,${prompt},1`);
    // The former page stays in the document, hidden, until this one is loaded.
    const form = page.getByRole('region', { name: 'New bulk job' });
    await form.getByLabel('File').setInputFiles({
      name: 'boats.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from(['use,prompt,numImages', ...rows].join('\n')),
    });
    await page.getByText('3 items, at most 11.70 credits').waitFor();
    await page.getByRole('cell', { name: 'a "blue", small boat' }).waitFor();
    await page.getByLabel('Maximum credits').fill('100');
    await expectFit(page, 1280);
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByText('2 completed · 1 failed of 3').waitFor();
    await expect
      .poll(() => page.getByRole('list', { name: 'Results' }).getByRole('link').count())
      .toBe(2);
    await page.getByText('7.80 credits charged').waitFor();
    const failed = page.getByRole('region', { name: 'Failed items' });
    await failed.getByText(/rejected the input/).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    await expectFit(page, 390);
    await page.getByRole('button', { name: 'Retry failed' }).click();
    const failedJobs = '/api/v1/studio/jobs?status=failed&search=lost%20boat';
    await expect
      .poll(async () => (await gateway.call(failedJobs, { key })).body.data)
      .toHaveLength(2);
    await page.getByText('2 completed · 1 failed of 3').waitFor();
    expect(problems).toEqual([]);
  });

  it('shows the items of a bulk job that wait, and decides about the chosen ones', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const art = { id: 'art', use: 'image/generate', body: { prompt: 'a boat', numImages: 2 } };
    const imageUrl = { $from: 'art', output: 'chosen' };
    const big = { id: 'big', use: 'image/upscale', approve: true, body: { imageUrl } };
    const item = (id: string) => ({ id, use: 'pipelines', body: { steps: [art, big] } });
    const bulk = await gateway.call<{ data: { bulkId: string } }>('/api/v1/studio/bulk', {
      body: { items: ['a', 'b', 'c'].map(item) },
      key,
    });
    const { page, problems } = await openAs(key);
    await page.goto(`${gateway.url}/console/bulk/${bulk.body.data.bulkId}`);
    const sheet = page.getByRole('region', { name: 'Items that wait for you' });
    await sheet.getByText('3 wait for you').waitFor();
    await sheet.getByRole('button', { name: 'Choose all' }).click();
    await sheet.getByRole('checkbox', { name: 'b, file 2' }).check();
    await sheet.getByRole('checkbox', { name: 'c, file 1' }).uncheck();
    expect(await sheet.getByRole('checkbox', { name: 'b, file 1' }).isChecked()).toBe(false);
    await expectFit(page, 1280);
    await sheet.getByRole('button', { name: 'Approve 2 for 16.00 credits' }).click();
    await page.getByText('2 approved').waitFor();
    await sheet.getByText('1 wait for you').waitFor();
    await sheet.getByRole('checkbox', { name: 'c, file 1' }).check();
    await sheet.getByRole('button', { name: 'Stop 1' }).click();
    await page.getByText('3 completed of 3').waitFor();
    await page.getByText('39.40 credits charged').waitFor();
    expect(problems).toEqual([]);
  });

  it('shows a rejected field next to its input, and keeps everything that was typed', async () => {
    const { key } = await gateway.newCaller({ credits: 10 });
    await gateway.untilDone(await gateway.startImage({ prompt: 'an earlier buoy' }, key), key);
    const { page } = await open();
    // The request of the latest job loads when the user is already in the form.
    const focused = Promise.withResolvers<void>();
    await page.route('**/timeline', async (route) => {
      await focused.promise;
      await route.continue();
    });
    await signIn(page, key);
    const prompt = getPrompt(page);
    await prompt.focus();
    const loaded = page.waitForResponse('**/timeline');
    focused.resolve();
    await loaded;
    await page.getByRole('img', { name: 'Result: an earlier buoy' }).waitFor();
    expect(await prompt.inputValue()).toBe('a lighthouse at dawn');
    await prompt.fill('no');
    const response = awaitSubmit(page);
    await generate(page).click();
    expect((await response).status()).toBe(400);
    await page.locator('.field .wrong').first().waitFor();
    expect(await prompt.inputValue()).toBe('no');
  });

  it('streams a chat as Markdown with its price, model and time, and keeps it after a reload', async () => {
    const { page, problems } = await openAs();
    await page.getByRole('link', { name: 'Chat' }).click();
    await page.getByRole('heading', { name: 'Chat', level: 1 }).waitFor();
    await page.getByLabel('Model').fill('gpt-5-mini');
    await page
      .getByLabel('Your message')
      .fill('What **lights** a harbour? <img src=x onerror=alert(1)> [a](javascript:alert(1))');
    await page.getByLabel('Your message').press('Control+Enter');
    const answer = page.getByRole('article', { name: 'assistant' });
    await answer.getByText(/credits/).waitFor();
    await answer.getByText(/gpt-5-mini · first text after .* · .* tokens/).waitFor();
    expect(await answer.locator('strong').first().textContent()).toBe('lights');
    expect(await answer.locator('img, a[href^=javascript]').count()).toBe(0);
    await expectAccessible(page);
    await page.reload();
    await answer.getByText('lights').first().waitFor();
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await answer.getByText(/credits/).waitFor();
    expect(await answer.count()).toBe(1);
    await page.getByRole('button', { name: 'New chat' }).click();
    await page.getByText('No messages yet').waitFor();
    expect(problems).toEqual([]);
  });

  it('signs out when its key is revoked, and never shows jobs of others', async () => {
    const { keyId, key } = await gateway.newCaller({ credits: 10 });
    const { page } = await openAs(key);
    await page.getByRole('link', { name: 'Jobs' }).click();
    await page.getByText('No jobs yet').waitFor();
    expect(
      await gateway.call(`/api/v1/api-keys/${keyId}`, { method: 'DELETE', key }),
    ).toMatchObject({ status: 200 });
    // The end of the event stream shows the sign-in page without a click.
    await page.getByLabel('API key').waitFor();
  });

  it('confirms before a link replaces a session, and shows the owner of the session', async () => {
    const { key } = await gateway.newCaller({ credits: 10 });
    const own = await gateway.call<{ keyPrefix: string }>('/api/v1/key', { key });
    const createLink = async (by: string): Promise<string> => {
      const made = await gateway.call<{ url: string }>('/api/v1/session/links', {
        method: 'POST',
        key: by,
      });
      expect(made.status).toBe(201);
      return gateway.url + new URL(made.body.url).pathname + new URL(made.body.url).hash;
    };
    const { page } = await open();
    const keyOfSession = async () =>
      (await (await page.request.get(`${gateway.url}/api/v1/key`)).json()).keyPrefix;
    const openLink = async (url: string) => {
      // The same page with another hash would not be loaded again.
      await page.goto('about:blank');
      await page.goto(url);
    };
    await openLink(await createLink(key));
    await generate(page).waitFor();
    expect(await keyOfSession()).toBe(own.body.keyPrefix);

    const link = await createLink(gateway.caller.key);
    await openLink(link);
    const question = page.getByRole('region', { name: 'Replace this session?' });
    await question.getByText(own.body.keyPrefix).waitFor();
    await expectAccessible(page);
    expect(page.url()).not.toContain('#');
    await question.getByRole('button', { name: 'Keep this session' }).click();
    await generate(page).waitFor();
    expect(await keyOfSession()).toBe(own.body.keyPrefix);

    await openLink(link);
    await question.getByRole('button', { name: 'Replace session' }).click();
    await generate(page).waitFor();
    expect(gateway.caller.key.startsWith(await keyOfSession())).toBe(true);
  });

  it('draws the menu and a countdown while the rate limit rejects requests, then retries', async () => {
    const { page } = await openAs();
    let isRejecting = true;
    const loaded = Promise.withResolvers<void>();
    await page.route('**/api/v1/key', async (route) => {
      if (!isRejecting) return route.continue();
      isRejecting = false;
      await loaded.promise;
      const json = { error: 'RATE_LIMITED', message: 'Too many requests.' };
      return route.fulfill({ status: 429, headers: { 'Retry-After': '4' }, json });
    });
    await page.reload();
    const startedAtMs = Date.now();
    loaded.resolve();
    await page.getByText(/Too many requests. Retrying in [1-4] s./).waitFor();
    await page.getByRole('link', { name: 'API keys' }).waitFor();
    await generate(page).waitFor();
    expect(Date.now() - startedAtMs).toBeGreaterThanOrEqual(4000);
    await page.getByText('Too many requests').waitFor({ state: 'detached' });
  });

  it('loads eight tabs, which share one event stream that ends when no tab is visible', async () => {
    const { page } = await open();
    const streams = trackStreams(page);
    const { key } = await gateway.newCaller({ credits: 10 });
    await signIn(page, key);
    const others: Page[] = [];
    while (others.length < 7) {
      const tab = await page.context().newPage();
      others.push(tab);
      await tab.goto(`${gateway.url}/console/jobs`);
      await tab.getByText('No jobs yet').waitFor();
    }
    await expect.poll(() => streams.size).toBe(1);

    const setVisibility = (tab: Page, state: 'hidden' | 'visible') =>
      tab.evaluate(
        `Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));`,
      );
    await setVisibility(page, 'hidden');
    await expect.poll(() => streams.size).toBe(1);
    const jobId = await gateway.startImage({ prompt: 'a lighthouse' }, key);
    for (const tab of others)
      await tab.getByRole('list', { name: 'Jobs' }).getByText('completed').waitFor();
    await gateway.untilDone(jobId, key);

    for (const tab of others) await setVisibility(tab, 'hidden');
    await expect.poll(() => streams.size).toBe(0);
    await setVisibility(page, 'visible');
    await expect.poll(() => streams.size).toBe(1);
  });

  it('shows no job of the key of an earlier session, while a tab of that key keeps its stream', async () => {
    const newCaller = () => gateway.newCaller({ credits: 10 });
    const [first, second] = await Promise.all([newCaller(), newCaller()]);
    const { page } = await open();
    const context = page.context();
    const streams = trackStreams(page);
    await signIn(page, first.key);
    await expect.poll(() => streams.size).toBe(1);
    // A page whose stream opens late reloads its key, whose session is replaced below.
    const ownKey = await gateway.call('/api/v1/key', { key: first.key });
    await page.route('**/api/v1/key', (route) => route.fulfill({ json: ownKey.body }));
    // A request with the cookie of the first session would end that session.
    await context.clearCookies();
    const headers = { authorization: `Bearer ${second.key}` };
    const begun = await context.request.post(`${gateway.url}/api/v1/session`, { headers });
    expect(begun.status()).toBe(201);
    const tab = await context.newPage();
    await tab.goto(`${gateway.url}/console/jobs`);
    await tab.getByText('No jobs yet').waitFor();
    await expect.poll(() => streams.size).toBe(2);
    for (const [key, model] of [
      [first.key, 'seedream'],
      [second.key, 'nano-banana'],
    ] as const) {
      const jobId = await gateway.startImage({ prompt: 'a lighthouse', model }, key);
      await gateway.untilDone(jobId, key);
    }
    const list = tab.getByRole('list', { name: 'Jobs' });
    await list.getByText('nano-banana').first().waitFor();
    expect(await list.getByText('seedream').count()).toBe(0);
  });

  it('shows that the gateway is unreachable, and reconnects by itself', async () => {
    const alone = { API_PORT: '0' };
    const first = await gateway.spawn('api', alone);
    const place = await openPlace(first.port);
    onTestFinished(place.close);
    const { page } = await open(place.url);
    await signIn(page, gateway.caller.key);
    await getPrompt(page).fill('typed before');
    first.child.kill('SIGKILL');
    await page.getByText('The gateway does not respond').waitFor();
    place.port = (await gateway.spawn('api', alone)).port;
    await page.getByText('The gateway does not respond').waitFor({ state: 'detached' });
    expect(await getPrompt(page).inputValue()).toBe('typed before');
  });
});
