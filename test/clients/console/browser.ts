/** The console in a real browser, on a real gateway. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { findChromium } from '../../../dev/docs/chromium.ts';
import { useGateway } from '../../harness/gateway.ts';

const executablePath = findChromium();
if (executablePath === null) {
  const message =
    'No Chromium: the console is not tested (Debian: chromium-headless-shell, or CHROMIUM_PATH).';
  if (process.env['CI']) throw new Error(message);
  console.warn(message);
}

/** Tests that need a browser; skipped, with a line that says so, where there is none. */
export const describeInBrowser = describe.skipIf(executablePath === null);

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Lists the elements that make a page wider than its window, if it is. */
const tooWide = `document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => element.outerHTML.slice(0, 150))`;
/** Lists tables and results that are wider than their containers, so that a part is cut off. */
const cutOff = `[...document.querySelectorAll('.scroll, .result')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
  .map((region) => region.getAttribute('aria-label') ?? region.className)`;

/** Expects that a loaded page fits into its width. */
export async function expectWidth(page: Page, width: number): Promise<void> {
  const place = `${page.url()} at ${width}`;
  for (const list of [tooWide, cutOff])
    await expect.poll(() => page.evaluate(list), { message: place }).toEqual([]);
}

/** Expects that a loaded page fits into its width, and is accessible. */
export async function expectFit(page: Page, width: number): Promise<void> {
  await page.locator('.skeleton').first().waitFor({ state: 'detached' });
  await expectWidth(page, width);
  await expectAccessible(page);
}

/** Page of the console with its errors. */
export interface ConsolePage {
  page: Page;
  /** Errors of the page and of its scripts, also those that a test provokes. */
  problems: string[];
}

/** Opens a URL of the console in a new browser context, with the sessions that `begin` posts. */
async function openPage(
  browser: Browser,
  url: string,
  begin?: (page: Page) => Promise<void>,
): Promise<ConsolePage> {
  const viewport = { width: 1280, height: 900 };
  // To draw animations without a graphics card takes CPU, and no test looks at them.
  const context = await browser.newContext({ viewport, reducedMotion: 'reduce' });
  context.setDefaultTimeout(180_000);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (line) => {
    if (line.type() === 'error') problems.push(line.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  await begin?.(page);
  await page.goto(url);
  return { page, problems };
}

/** Describes the pages that are open: their addresses, and the begin of their text. */
async function describePages(browser: Browser): Promise<string> {
  const pages = browser.contexts().flatMap((context) => context.pages());
  const texts = pages.map(async (page) => {
    const text = await page.evaluate<string>(
      '(document.querySelector("main") ?? document.body).innerText',
    );
    return `${page.url()}: ${text.replaceAll(/\s+/g, ' ').slice(0, 3000)}`;
  });
  return (await Promise.all(texts)).join('\n');
}

/** Returns a gateway with a browser, whose pages are closed after each test; by default the shared gateway. */
export function useConsole(options: Parameters<typeof useGateway>[0] = {}) {
  const gateway = useGateway(options);
  let browser: Browser;
  beforeAll(async () => {
    // Chromium refuses its sandbox to root, which containers and CI are.
    const args = ['--no-sandbox'];
    browser = await chromium.launch({ executablePath: executablePath ?? '', args });
  });
  afterEach(async ({ task }) => {
    const shown = task.result?.state === 'fail' ? await describePages(browser) : null;
    for (const context of browser.contexts()) await context.close();
    // The report of a run has the errors of a test, and no picture.
    if (shown !== null) throw new Error(shown);
  });
  afterAll(() => browser?.close());
  return {
    gateway,
    /** Opens the first page without a session. */
    open: (url = gateway.url) => openPage(browser, `${url}/console`),
    /** Opens a page by its path. Sessions that are begun before save the load of the page that signs in. */
    openPath: (path: string, begin: (page: Page) => Promise<void>) =>
      openPage(browser, `${gateway.url}/console/${path}`, begin),
    /** Opens any page. */
    visit: (address: string) => openPage(browser, address),
    /** Opens the console and signs in, as the file's caller by default. */
    openAs: async (key = gateway.caller.key): Promise<ConsolePage> => {
      const opened = await openPage(browser, `${gateway.url}/console`);
      await signIn(opened.page, key);
      return opened;
    },
  };
}

/** Signs in with a key. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

interface Violation {
  id: string;
  nodes: { html: string }[];
}

/** Expects no accessibility violation of any impact, according to axe. */
export async function expectAccessible(page: Page): Promise<void> {
  // A page has no heading before it is drawn.
  await page.locator('h1').waitFor();
  await page.evaluate(axe);
  const violations: Violation[] = await page.evaluate(
    'axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)',
  );
  const found = violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`,
  );
  expect(found).toEqual([]);
}
