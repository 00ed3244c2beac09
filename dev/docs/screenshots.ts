/**
 * `npm run dev -- screenshots [name]...`: creates jobs on the running stack of `npm start`, and writes screenshots of the
 * Temporal UI and the console to docs/screenshots/. Without names it takes all but `trace-chat` and `trace-image`, which need
 * `npm run dev -- trace-viewer` and a stack that sends its traces there. The browser is CHROMIUM_PATH, otherwise a Chromium
 * on the PATH.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium, type Page } from 'playwright-core';
import { z } from 'zod';
import { readStack, type StackDescription as Stack } from '../stack/stack-file.ts';
import { findChromium } from './chromium.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const dataDir = resolve(process.env['DATA_DIR'] ?? '.data');
const jobSchema = z.object({ data: z.object({ jobId: z.string(), done: z.boolean().optional() }) });

function fail(message: string): never {
  console.error(message);
  return process.exit(1);
}

async function request({ apiUrl, apiKey }: Stack, path: string, body?: object) {
  const response = await fetch(apiUrl + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!response.ok) fail(`${path} returned ${response.status}: ${await response.text()}`);
  return jobSchema.parse(await response.json()).data;
}

/** Starts an image job, and returns its id. */
async function start(stack: Stack, prompt: string, fields: object = {}): Promise<string> {
  const body = { prompt, async: true, ...fields };
  return (await request(stack, '/api/v1/studio/image/generate', body)).jobId;
}

async function untilDone(stack: Stack, jobId: string): Promise<string> {
  while (!(await request(stack, `/api/v1/studio/jobs/${jobId}?wait=30`)).done);
  return jobId;
}

/** Names of the screenshots to take; empty for all. */
const requestedNames = process.argv.slice(2);

/** Columns of the workflow list, in order. */
const columns = [
  'Status',
  'Workflow ID',
  'Type',
  'Provider',
  'JobStatus',
  'BillingState',
  'ErrorCode',
].map((label) => ({ label }));

/** Sets the columns of the workflow list, and removes the path of this checkout from stack traces. */
async function prepare(page: Page): Promise<void> {
  await page.addInitScript((shownColumns) => {
    localStorage.setItem(
      'namespace-workflow-table-columns',
      JSON.stringify({ default: shownColumns }),
    );
  }, columns);
  await page.route('**/api/v1/**', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replaceAll(root, '/app/') });
  });
}

/** Screenshot to take, once the page shows all of `texts`. */
interface Screenshot {
  name: string;
  url: string;
  texts: string[];
  width?: number;
  height?: number;
  /** Action to perform before the screenshot. */
  beforeScreenshot?: () => Promise<void>;
}

async function take(page: Page, screenshot: Screenshot): Promise<void> {
  const { name, url, texts, width = 1440, height = 1000, beforeScreenshot } = screenshot;
  if (requestedNames.length > 0 && !requestedNames.includes(name)) return;
  await page.setViewportSize({ width, height });
  await page.goto(url);
  for (const text of texts) await page.getByText(text).first().waitFor();
  await beforeScreenshot?.();
  // Charts, fonts and images appear after the texts.
  await page.waitForTimeout(2000);
  await page.screenshot({ path: join(root, 'docs', 'screenshots', `${name}.png`) });
  console.log(`docs/screenshots/${name}.png`);
}

async function takeJobs(page: Page, stack: Stack): Promise<void> {
  const workflows = `${stack.temporalUiUrl}/namespaces/default/workflows`;
  const oldestFirst = () => page.getByText('Descending', { exact: true }).click();
  const quick = await untilDone(stack, await start(stack, 'a lighthouse at dawn'));
  const failed = await untilDone(stack, await start(stack, '[[policy]] a lighthouse'));
  const several = await untilDone(stack, await start(stack, 'lighthouses', { numImages: 9 }));
  await take(page, {
    name: 'finished-job',
    url: `${workflows}/${quick}`,
    texts: ['reserve', 'providerNotification', 'charge'],
    beforeScreenshot: oldestFirst,
  });
  await take(page, {
    name: 'failed-job',
    url: `${workflows}/${failed}`,
    texts: ['reserve', 'providerNotification', 'release', 'released 3.9 credits'],
    beforeScreenshot: oldestFirst,
  });
  await take(page, {
    name: 'several-calls',
    url: `${workflows}/${several}`,
    texts: ['call 3 of 3', 'charge'],
    height: 1350,
    beforeScreenshot: oldestFirst,
  });
  await take(page, {
    name: 'current-details',
    url: `${workflows}/${several}`,
    texts: ['charge'],
    height: 800,
    async beforeScreenshot() {
      await page.getByText('User Metadata', { exact: true }).click();
      // The UI renders Markdown in frames.
      const details = page.locator('iframe').last().contentFrame();
      await details.getByText('charged 35.1 credits').waitFor();
    },
  });
  // The provider never responds to this request, so after three seconds the activity `adopt` looks it up in the
  // provider's list.
  const hanging = await start(stack, '[[hang-submit]] [[slow:40s]] a lighthouse in the fog');
  await take(page, {
    name: 'running-job',
    url: `${workflows}/${hanging}`,
    texts: ['∞ • adopt • fal nano-banana'],
    beforeScreenshot: oldestFirst,
  });
  await take(page, {
    name: 'workflow-list',
    url: workflows,
    texts: [hanging, 'CONTENT_POLICY'],
    width: 1700,
  });
}

/** Takes the screenshots of the console, which show the jobs of the other screenshots. */
async function takeConsole(page: Page, { apiUrl, apiKey, adminKey }: Stack): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}` };
  // The cookie is stored in the browser context of the page.
  await page.request.post(`${apiUrl}/api/v1/session`, { headers });
  await take(page, {
    name: 'console-playground',
    url: `${apiUrl}/console/playground/image/generate`,
    texts: ['Generate'],
    async beforeScreenshot() {
      await page.getByLabel('Prompt').first().fill('a lighthouse at dawn, in watercolours');
      await page.getByRole('button', { name: 'Generate' }).click();
      await page.getByRole('img', { name: 'Result: a lighthouse at dawn, in water' }).waitFor();
      await page.evaluate('scrollTo(0, 0)');
    },
  });
  await take(page, {
    name: 'console-jobs',
    url: `${apiUrl}/console/jobs`,
    texts: ['Live'],
    height: 800,
  });
  await take(page, { name: 'console-usage', url: `${apiUrl}/console/usage`, texts: ['Records'] });
  await page.request.post(`${apiUrl}/api/admin/v1/session`, {
    headers: { authorization: `Bearer ${adminKey}` },
    data: { actor: 'Olga' },
  });
  await take(page, {
    name: 'console-overview',
    url: `${apiUrl}/console/operator`,
    texts: ['Postgres', 'Task queues'],
  });
}

const spanList = z.object({
  data: z.array(
    z.object({
      name: z.string(),
      context: z.object({ span_id: z.string() }),
      attributes: z.json(),
    }),
  ),
});

/** Waits until the trace viewer has a request's span, and returns the URL of its page. */
async function findSpan(name: string, requestId: string): Promise<string> {
  const viewer = `http://127.0.0.1:${process.env['TRACE_VIEWER_PORT'] ?? '6006'}`;
  const deadlineMs = Date.now() + 60_000;
  while (Date.now() < deadlineMs) {
    const response = await fetch(`${viewer}/v1/projects/default/spans?limit=100`).catch(() =>
      fail('No trace viewer: `npm run dev -- trace-viewer` in another terminal first.'),
    );
    const { data } = spanList.parse(await response.json());
    const span = data.find(
      (candidate) =>
        candidate.name === name && JSON.stringify(candidate.attributes).includes(requestId),
    );
    if (span) return `${viewer}/redirects/spans/${span.context.span_id}`;
    await sleep(500);
  }
  return fail(`The viewer has no span ${name}: set OTEL_EXPORTER_OTLP_ENDPOINT of \`npm start\`.`);
}

/** Takes screenshots of a chat and of an image job in the trace viewer. */
async function takeTraces(page: Page, { apiUrl, apiKey }: Stack): Promise<void> {
  const messages = [
    { role: 'system', content: 'Answer as a keeper of a lighthouse. '.repeat(300) },
    { role: 'user', content: 'What lights a harbour?' },
  ];
  const chat = { model: 'gpt-5-mini', reasoning_effort: 'low', stream: true, messages };
  for (const [name, path, body, span] of [
    ['trace-chat', '/api/v1/chat', chat, 'chat gpt-5-mini'],
    [
      'trace-image',
      '/api/v1/studio/image/generate',
      { prompt: 'a lighthouse at dawn' },
      'generate_content nano-banana',
    ],
  ] as const) {
    // The second request reads its prompt from the provider's cache.
    for (const attempt of ['first', 'second']) {
      const requestId = `${name}-${attempt}-${Date.now()}`;
      const headers = {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        'x-request-id': requestId,
      };
      const response = await fetch(apiUrl + path, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      await response.text();
      const url = await findSpan(span, requestId);
      if (attempt === 'first') continue;
      const beforeScreenshot = () => page.getByRole('tab', { name: 'Attributes' }).click();
      await take(page, { name, url, texts: [span, 'Total Cost'], beforeScreenshot });
    }
  }
}

const stack =
  readStack(dataDir) ?? fail('No running stack: `npm start` in another terminal first.');
const executablePath =
  findChromium() ??
  fail('No Chromium: install one (Debian: chromium-headless-shell), or name it in CHROMIUM_PATH.');
// Chromium does not run its own sandbox as root.
const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath, args });
const openPage = async (): Promise<Page> => {
  const page = await browser.newPage({ locale: 'en-GB', timezoneId: 'UTC' });
  // In milliseconds; long enough for a busy machine and the Temporal UI, which is slow.
  page.setDefaultTimeout(180_000);
  return page;
};
try {
  if (requestedNames.some((name) => name.startsWith('trace-'))) {
    await takeTraces(await openPage(), stack);
  } else await takeGateway(stack);
} finally {
  await browser.close();
}

async function takeGateway(running: Stack): Promise<void> {
  const demoPage = join(dataDir, 'demo', 'index.html');
  if (!existsSync(demoPage)) {
    spawnSync(process.execPath, [join(root, 'dev/stack/tour.ts')], { stdio: 'inherit' });
  }
  const page = await openPage();
  await prepare(page);
  await takeJobs(page, running);
  // The Temporal UI still has open requests that wait for events.
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  // Use a page without `prepare`: the interception would buffer the event stream, which never ends.
  await takeConsole(await openPage(), running);
  await take(page, {
    name: 'api-reference',
    url: `${running.apiUrl}/docs`,
    texts: ['/api/v1/studio/image/generate'],
  });
  await take(page, { name: 'demo-page', url: pathToFileURL(demoPage).href, texts: ['credits'] });
}
