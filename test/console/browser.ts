/** The console in a real browser, on a real gateway. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium, type Browser, type Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { findChromium } from '../../dev/docs/chromium.ts';

const executablePath = findChromium();
if (executablePath === null) {
  const message = 'No Chromium: the console is not tested (Debian: chromium, or CHROMIUM_PATH).';
  if (process.env['CI']) throw new Error(message);
  console.warn(message);
}

/** Tests that need a browser; skipped, with a line that says so, where there is none. */
export const describeInBrowser = describe.skipIf(executablePath === null);

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Script that lists the tables that are wider than their containers, so that columns are cut off.
 */
export const cutOff = `[...document.querySelectorAll('.scroll')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
  .map((region) => region.getAttribute('aria-label'))`;

/** Starts a headless browser. */
export function openBrowser(): Promise<Browser> {
  // Chromium refuses its sandbox to root, which containers and CI are.
  return chromium.launch({ executablePath: executablePath ?? '', args: ['--no-sandbox'] });
}

/** Page of the console with its errors. */
export interface ConsolePage {
  page: Page;
  /** Errors of the page and of its scripts, also those that a test provokes. */
  problems: string[];
}

/** Opens the console in a new browser context, without a session. */
export async function openPage(browser: Browser, url: string): Promise<ConsolePage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (line) => {
    if (line.type() === 'error') problems.push(line.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`${url}/console`);
  return { page, problems };
}

/** Signs in with a key. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

interface Violation {
  id: string;
  impact: string;
  nodes: { html: string }[];
}

/** Expects no serious accessibility violation, according to axe. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axe);
  const violations: Violation[] = await page.evaluate(
    'axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)',
  );
  const serious = violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`);
  expect(serious).toEqual([]);
}
