/**
 * `npm run dev -- first-paint [runs]`: measures how soon Chromium draws the console of the running stack of `npm start`, with an
 * empty cache for each run. DATA_DIR and CHROMIUM_PATH are those of `npm start` and of the screenshots.
 */
import { resolve } from 'node:path';
import { chromium, type Browser } from 'playwright-core';
import { z } from 'zod';
import { readStack } from '../stack/stack-file.ts';
import { findChromium } from './chromium.ts';

/** Expression that waits for the first text or picture, and returns its time in milliseconds. */
const paintTime = `new Promise((resolve) =>
  new PerformanceObserver((list) => {
    const [paint] = list.getEntriesByName('first-contentful-paint');
    if (paint) resolve(paint.startTime);
  }).observe({ type: 'paint', buffered: true }),
)`;

/** Returns the time from the request of a page to its first contents, in milliseconds. */
async function measure(browser: Browser, url: string, headers?: Record<string, string>) {
  // Each context has a cache and cookies of its own.
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    if (headers) await page.request.post(new URL('/api/v1/session', url).href, { headers });
    await page.goto(url);
    return z.number().parse(await page.evaluate(paintTime));
  } finally {
    await context.close();
  }
}

const runs = Number(process.argv[2] ?? 5);
const stack = readStack(resolve(process.env['DATA_DIR'] ?? '.data'));
const executablePath = findChromium();
if (!stack || executablePath === null) throw new Error('Start `npm start`, and install Chromium.');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const session = { authorization: `Bearer ${stack.apiKey}` };
for (const [name, path, headers] of [
  ['sign-in', '/console/sign-in', undefined],
  ['playground, signed in', '/console/playground/image/generate', session],
] as const) {
  const times: number[] = [];
  while (times.length < runs) times.push(await measure(browser, stack.apiUrl + path, headers));
  const sorted = times.map(Math.round).toSorted((one, other) => one - other);
  console.log(`${name}: median ${sorted[Math.floor(runs / 2)]} ms of ${sorted.join(', ')}`);
}
await browser.close();
