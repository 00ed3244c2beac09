/** The pages of operators in a real browser: they settle stuck jobs with a recorded reason. */
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { describeInBrowser, expectAccessible, useConsole } from './browser.ts';

describeInBrowser('the console of an operator', () => {
  const { gateway, open } = useConsole();

  async function signIn(page: Page, key: string): Promise<void> {
    await page.getByLabel('Operator’s key').fill(key);
    await page.getByRole('button', { name: 'Sign in as an operator' }).click();
  }
  async function openAsOperator() {
    const opened = await open();
    const { page } = opened;
    await page.getByText('I operate this gateway').click();
    await page.getByLabel('Your name').fill('Olga');
    await signIn(page, gateway.config.ADMIN_API_KEY);
    await page.getByRole('heading', { name: 'Providers', exact: true }).waitFor();
    return opened;
  }
  const visit = async (page: Page, name: string) => {
    const menu = page.getByRole('checkbox', { name: 'Menu' });
    if (await menu.isVisible()) await menu.press('Space');
    await page.getByRole('navigation', { name: 'Operator' }).getByRole('link', { name }).click();
  };
  const confirm = async (page: Page, verb: string, reason: string) => {
    const dialog = page.getByRole('dialog');
    const button = dialog.getByRole('button', { name: verb, exact: true });
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel('Reason').fill(reason);
    await button.click();
    await dialog.waitFor({ state: 'detached' });
  };
  /** Returns the recorded actions of this file: other files use the same database. */
  const actions = (subject: string) =>
    gateway.database.query<{ action: string; reason: string }>(
      `SELECT action, reason FROM admin_action WHERE subject = $1 AND actor = 'Olga' ORDER BY id`,
      [subject],
    );
  it('explains a wrong key, and requires a name with the admin key', async () => {
    const { page } = await open();
    await page.getByText('I operate this gateway').click();
    await signIn(page, gateway.caller.key);
    await page.getByText('This is not an operator key').waitFor();
    await signIn(page, gateway.config.ADMIN_API_KEY);
    await page.getByText('enter your name for the action log').waitFor();
    await expectAccessible(page);
  });

  it('settles a stuck job, and shows its whole history', async () => {
    const prompt = '[[no-webhook]] [[slow:900s]] an orphaned owl';
    const jobId = await gateway.startImage({ prompt });
    const call = 'SELECT state FROM provider_call WHERE job_id = $1';
    const accepted = [{ state: 'accepted' }];
    await expect.poll(() => gateway.database.query(call, [jobId])).toEqual(accepted);
    await gateway.getWorkflow(jobId).terminate('test');
    const { page, problems } = await openAsOperator();
    await visit(page, 'All jobs');
    await page.getByLabel('Open for at least').selectOption('any time');
    const stuck = page.getByRole('region', { name: 'Stuck jobs' });
    const line = stuck.locator(`tr[data-row=${jobId}]`);
    await line.getByText('no workflow').waitFor();
    await line.getByText('ended (TERMINATED) without settling the reservation').waitFor();
    await line.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Cancel Requests cancellation' }).waitFor();
    for (const name of ['Redeliver', 'Refund']) {
      const item = page.getByRole('menuitem', { name: `${name} The job has not ended yet.` });
      expect(await item.isDisabled(), name).toBe(true);
    }
    await page.keyboard.press('Escape');
    await expectAccessible(page);
    await line.getByRole('button', { name: 'Resettle' }).click();
    await expectAccessible(page);
    await confirm(page, 'Resettle', 'ticket 7');
    await gateway.sandbox.clearFaults();
    // The sandbox sends no notification for this job, so an operator checks its calls.
    await expect
      .poll(async () => {
        await gateway.operate(`/jobs/${jobId}/reverify`, {});
        return (await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data.status;
      })
      .toBe('completed');
    await page.getByLabel('Search jobs').fill(jobId.slice(-8));
    const found = page.getByRole('list', { name: 'Jobs' }).getByRole('link');
    await expect.poll(() => found.count()).toBe(1);
    expect(await found.innerText()).toMatch(/^Test\n.*an orphaned owl/);
    await page.getByLabel('Organization').selectOption(gateway.caller.organizationId);
    await found.click();
    const timeline = page.getByRole('list', { name: 'Timeline' });
    for (const kind of ['job', 'ledger', 'call', 'operator']) {
      await timeline.locator(`[data-kind=${kind}]`).first().waitFor();
    }
    await timeline.getByText('Olga: job resettled').waitFor();
    await timeline.getByText('charge').waitFor();
    await expectAccessible(page);
    expect(await actions(jobId)).toEqual([{ action: 'job.resettled', reason: 'ticket 7' }]);
    expect(problems).toEqual([]);
  });

  it('acts on selected jobs and on all that match, after a dry run', async () => {
    const prompt = '[[slow:900s]] an owl among many';
    const jobIds = await Promise.all([1, 2].map(() => gateway.startImage({ prompt })));
    await Promise.all(jobIds.map(gateway.untilAccepted));
    const { page, problems } = await openAsOperator();
    await visit(page, 'All jobs');
    await page.getByLabel('Open for at least').selectOption('any time');
    for (const jobId of jobIds)
      await page.getByRole('checkbox', { name: `Select ${jobId}` }).check();
    await page.getByRole('button', { name: 'Act on 2 selected' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Action').selectOption('cancel');
    await dialog.getByText('2 of 2 jobs can be changed, 7.80 credits').waitFor();
    await expectAccessible(page);
    await confirm(page, 'Run', 'ticket 9');
    const started = page.getByRole('region', { name: 'Bulk actions' });
    await started.getByText('cancel: ticket 9').waitFor();
    await started.getByText('2 of 2 done').waitFor();
    for (const jobId of jobIds) {
      expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
      const recorded = { action: 'job.cancel_requested', reason: 'ticket 9' };
      expect(await actions(jobId)).toEqual([recorded]);
    }
    await page.getByLabel('Search jobs').fill('an owl among many');
    await page.getByRole('button', { name: 'Act on all matching' }).click();
    await dialog.getByLabel('Action').selectOption('refund');
    await dialog.getByText('0 of 0 jobs can be changed').waitFor();
    expect(problems).toEqual([]);
  });

  it('shows the attempts at each provider of a job that a second provider accepted', async () => {
    await gateway.sandbox.inject({ match: 'openai/gpt-image-2', faults: 'submit:503x9' });
    const prompt = 'an owl that moved';
    const jobId = await gateway.startImage({ prompt, model: 'alpha-image-2' });
    await gateway.untilDone(jobId);
    await gateway.sandbox.clearFaults();
    const { page } = await openAsOperator();
    await page.goto(`${gateway.url}/console/operator/jobs/${jobId}`);
    const calls = page.getByRole('list', { name: 'Timeline' }).locator('[data-kind=call]');
    await calls.first().waitFor();
    const story = await gateway.admin<{ data: { unacceptedSubmits: object[] } }>(`/jobs/${jobId}`);
    const texts = await calls.allInnerTexts();
    expect(texts).toHaveLength(4);
    const attempts = story.body.data.unacceptedSubmits.length;
    expect(texts[0]).toMatch(new RegExp(`call 1 to fal[^]*${attempts} attempts`));
    expect(texts[1]).toMatch(/call 1: not accepted by fal[^]*\(503\)[^]*runner_scheduling_failure/);
    expect(texts[2]).toMatch(/call 1 to openai/);
    expect(texts[2]).not.toContain('attempts');
    expect(texts[3]).toMatch(/call 1: answered/);
  });

  it('refunds a part and then the rest of a charged job, and shows both refunds', async () => {
    const jobId = await gateway.startImage({ prompt: 'a blurred owl' });
    await gateway.untilDone(jobId);
    const { page, problems } = await openAsOperator();
    await page.goto(`${gateway.url}/console/operator/jobs/${jobId}`);
    const refund = page.getByRole('button', { name: 'Refund' });
    await refund.click();
    const credits = page.getByRole('dialog').getByLabel('Credits');
    expect(await credits.inputValue()).toBe('3.9');
    await expectAccessible(page);
    await credits.fill('1.5');
    await confirm(page, 'Refund', 'ticket 8');
    await page.getByText('1.50 refunded').waitFor();
    await refund.click();
    expect(await credits.inputValue()).toBe('2.4');
    await confirm(page, 'Refund', 'ticket 8, the rest');
    await page.getByText('3.90 refunded').waitFor();
    await page.getByRole('button', { name: 'More actions' }).click();
    const spent = page.getByRole('menuitem', { name: 'Refund No charged credits are left' });
    expect(await spent.isDisabled()).toBe(true);
    const silent = page.getByRole('menuitem', { name: 'Redeliver The job has no webhook.' });
    expect(await silent.isDisabled()).toBe(true);
    await page.keyboard.press('Escape');
    const timeline = page.getByRole('list', { name: 'Timeline' });
    const refunds = timeline.locator('[data-kind=ledger]').filter({ hasText: 'refund' });
    await expect.poll(() => refunds.count()).toBe(2);
    await timeline.getByText('Olga: job refunded').first().waitFor();
    await page.getByRole('main').getByRole('link', { name: 'test' }).click();
    const ledger = page.getByRole('region', { name: 'Ledger' });
    await ledger.getByText('Olga: ticket 8, the rest').waitFor();
    expect(problems).toEqual([]);
  });

  it('opens with linked figures: work, workers, webhooks, credits, queues and chat providers', async () => {
    interface Figures {
      jobs: { open: number };
      queues: { name: string; workers: number }[];
      chatProviders: { provider: string; calls: number }[];
    }
    const readFigures = async () => {
      const { data } = (await gateway.admin<{ data: Figures }>('/overview')).body;
      const openai = data.chatProviders.find(({ provider }) => provider === 'openai');
      const fal = data.queues.find(({ name }) => name === 'provider-fal');
      return { ...data, chats: openai?.calls ?? 0, workers: fal?.workers };
    };
    // The chats of other files are in the database too.
    const before = await readFigures();
    await gateway.send('/api/v1/chat', {
      method: 'POST',
      body: { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'hello' }] },
    });
    const openJob = await gateway.startImage({ prompt: '[[slow:900s]] an owl at work' });
    await gateway.untilAccepted(openJob);
    const after = await readFigures();
    expect(after.chats).toBeGreaterThan(before.chats);
    expect(after.jobs.open).toBeGreaterThan(0);
    expect(after.workers).toBeGreaterThan(0);
    await gateway.cancel(openJob);
    await gateway.untilDone(openJob);
    const { page, problems } = await openAsOperator();
    const figures = page.getByRole('list', { name: 'Figures' });
    for (const name of ['Past deadline', 'Workers', 'Failing webhooks', 'Credits reserved'])
      await figures.getByText(name).waitFor();
    for (const name of ['Postgres', 'Temporal'])
      await figures.getByRole('link', { name: new RegExp(`${name}.*reachable`) }).waitFor();
    await page.getByRole('region', { name: 'Chat providers' }).getByText('openai').waitFor();
    await page.getByRole('region', { name: 'Task queues' }).getByText('provider-fal').waitFor();
    await figures.getByRole('link', { name: /Open jobs/ }).click();
    await page.getByRole('heading', { name: 'All jobs' }).waitFor();
    expect(problems).toEqual([]);
  });

  it('says what needs attention, with its runbook, and sends a failed webhook again', async () => {
    let status = 500;
    const url = gateway.receiver.at('/away', (response) => response.writeHead(status).end());
    const jobId = await gateway.startImage({ prompt: 'an owl unheard', webhookUrl: url });
    await gateway.receiver.untilReceived('/away', 4);
    const { page, problems } = await openAsOperator();
    const figures = page.getByRole('list', { name: 'Figures' });
    await page.route('**/overview', async (route) => {
      const json = await (await route.fetch()).json();
      const runbook = 'stuck-reservation.md';
      const message = 'Jobs past their deadline that are not settled: 2.';
      const condition = { alert: 'JobsOverdue', severity: 'page', message, runbook };
      json.data.attention = [{ ...condition, runbookUrl: 'https://docs.example/stuck' }];
      await route.fulfill({ json });
    });
    await page.reload();
    const attention = page.getByRole('region', { name: 'Needs attention' });
    await attention.getByRole('link', { name: 'Runbook' }).waitFor();
    expect(await figures.getByRole('listitem').first().innerText()).toContain('Past deadline');
    await expectAccessible(page);
    await attention.getByRole('link', { name: 'Jobs past their deadline' }).click();
    await page.getByRole('heading', { name: 'All jobs' }).waitFor();
    await visit(page, 'Overview');
    await figures.getByRole('link', { name: /Failing webhooks [1-9]/ }).click();
    const line = page.locator(`tr[data-row=${jobId}]`);
    await line.getByText('500', { exact: true }).waitFor();
    status = 204;
    await line.getByRole('button', { name: 'Redeliver' }).click();
    await confirm(page, 'Redeliver', 'the receiver is back');
    await gateway.receiver.untilReceived('/away', 5);
    const recorded = { action: 'webhook.redelivery_requested', reason: 'the receiver is back' };
    expect(await actions(jobId)).toEqual([recorded]);
    // Without the database, the page still says which server is away.
    await page.route('**/overview', (route) => route.fulfill({ status: 503, json: {} }));
    await page.route('**/readyz', (route) =>
      route.fulfill({ status: 503, json: { checks: { temporal: true }, milliseconds: {} } }),
    );
    await page.goto(`${gateway.url}/console/operator`);
    await figures.getByRole('link', { name: /Postgres.*cannot be reached/ }).waitFor();
    expect(problems.filter((text) => !text.includes('503'))).toEqual([]);
  });

  it('pauses and resumes a provider, and compares the ledger with the provider', async () => {
    const { page, problems } = await openAsOperator();
    const fal = page.locator('tr[data-row=fal]');
    await fal.getByRole('button', { name: 'Pause' }).click();
    await confirm(page, 'Pause', 'fal is down');
    await fal.getByText('by Olga').waitFor();
    await fal.getByRole('button', { name: 'Resume' }).click();
    await confirm(page, 'Resume', 'fal is back');
    await fal.getByText('active').waitFor();
    await page.getByRole('button', { name: 'Run audit' }).click();
    await page.getByText('No findings').waitFor();
    await page.getByText(/^Last audit of the changes: .+, 0 findings$/).waitFor();
    const trend = fal.getByRole('img', { name: 'Calls in each 5 minutes:' });
    expect(await trend.locator('rect').count()).toBeGreaterThan(0);
    await expectAccessible(page);
    expect(await actions('fal')).toEqual([
      { action: 'provider.paused', reason: 'fal is down' },
      { action: 'provider.resumed', reason: 'fal is back' },
    ]);
    expect(problems).toEqual([]);
  });

  it('sets a markup and fixed prices, and ends them', async () => {
    const { organizationId } = await gateway.newCaller();
    const { page, problems } = await openAsOperator();
    await visit(page, 'Prices');
    const prices: [what: string, kind: string, fields: Record<string, string>, shown: string][] = [
      ['*', 'a markup on the catalog', { 'Markup in percent': '12.5' }, '+12.5 %'],
      ['image/generate', 'a fixed price for Studio work', { Credits: '7' }, '7 credits per image'],
      [
        'chat',
        'a fixed price for tokens',
        { 'Credits per million input tokens': '100', 'Per million output tokens': '400' },
        '100 / 400 credits per million input / output tokens',
      ],
    ];
    for (const [what, kind, fields, shown] of prices) {
      await page.getByRole('button', { name: 'Add', exact: true }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('textbox', { name: /^Organization/ }).fill(organizationId);
      await dialog.getByRole('textbox', { name: /^For/ }).fill(what);
      await dialog.getByRole('combobox', { name: 'Price' }).selectOption(kind);
      for (const [label, value] of Object.entries(fields))
        await dialog.getByRole('spinbutton', { name: label }).fill(value);
      await expectAccessible(page);
      await confirm(page, 'Add', 'contract 3');
      const line = page.locator('tr').filter({ hasText: shown }).filter({ hasText: what });
      const end = line.getByRole('button', { name: `End the price for ${what}` });
      await end.click();
      await confirm(page, 'End', 'contract 3');
      await end.waitFor({ state: 'detached' });
    }
    expect(problems).toEqual([]);
  });

  it('creates an organization, grants and withdraws credits, and suspends the organization', async () => {
    const { page, problems } = await openAsOperator();
    await visit(page, 'Organizations');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Umbrella');
    await confirm(page, 'Create', 'contract 4');
    await page.getByRole('link', { name: 'Umbrella' }).click();
    for (const [verb, credits] of [
      ['Grant', '500'],
      ['Take back', '120'],
    ] as const) {
      await page.getByRole('button', { name: verb }).click();
      await page.getByLabel('Credits', { exact: true }).fill(credits);
      await confirm(page, verb, 'invoice 17');
    }
    const figures = page.getByRole('list', { name: 'Figures' });
    await figures.getByText('380.00').waitFor();
    await page.getByRole('button', { name: 'Limits' }).click();
    await page.getByLabel('Requests a minute').fill('90');
    await page.getByLabel('Open jobs at most').fill('7');
    await confirm(page, 'Save', 'contract 5');
    for (const text of ['90 requests a minute', '7 open jobs', 'of 0 ended in 24 h'])
      await figures.getByText(text).waitFor();
    const ledger = page.getByRole('region', { name: 'Ledger' });
    await ledger.getByText('Olga: invoice 17').first().waitFor();
    await page.getByRole('button', { name: 'Suspend' }).click();
    await confirm(page, 'Suspend', 'unpaid');
    await page.getByText('suspended').waitFor();
    await expectAccessible(page);
    await visit(page, 'Actions');
    await page.getByText('unpaid').waitFor();
    await visit(page, 'Operators');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Quentin');
    await page.getByRole('dialog').getByLabel('Reason').fill('joins the team');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.locator('[data-secret]').waitFor();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    const quentin = page.locator('tr[data-row^=opr_]').filter({ hasText: 'Quentin' });
    await quentin.getByRole('button', { name: 'Revoke' }).click();
    await confirm(page, 'Revoke', 'left the team');
    await quentin.getByText('revoked').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    expect(problems).toEqual([]);
  });
});
