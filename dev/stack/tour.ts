/**
 * `npm run demo`: one call of every Studio endpoint of the running stack. The media are saved below
 * DATA_DIR/demo with a page to look at and listen to them; at the end the credits that the answers
 * named are held against the ledger.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { z } from 'zod';
import { tourPage, type TourStop } from './tour-page.ts';
import { mediaUrls, tourSteps, type Made, type TourStep } from './tour-steps.ts';

const stackFile = z.object({ apiUrl: z.url(), apiKey: z.string(), adminKey: z.string() });
const record = z.record(z.string(), z.unknown());
/** What the answers have in common; each has more. */
const answerShape = z.looseObject({
  data: record.optional(),
  // Usage has a number of that name.
  credits: z.object({ used: z.number() }).optional().catch(undefined),
  error: z.string().optional(),
  message: z.string().optional(),
});
const jobShape = z.object({
  phase: z.string(),
  done: z.boolean(),
  result: record.nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});
type Answer = z.infer<typeof answerShape>;

interface Received {
  status: number;
  body: Answer;
  headers: Headers;
}

const dataDir = resolve(process.env['DATA_DIR'] ?? '.data');
const target = join(dataDir, 'demo');

const stack = await readFile(join(dataDir, 'stack.json'), 'utf8').then(
  (text) => stackFile.parse(JSON.parse(text)),
  () => {
    console.error('No running stack: `npm start` in another terminal first.');
    return process.exit(1);
  },
);

async function call(path: string, init: RequestInit = {}): Promise<Received> {
  const headers = new Headers(init.headers);
  headers.set('authorization', `Bearer ${stack.apiKey}`);
  if (typeof init.body === 'string') headers.set('content-type', 'application/json');
  const answer = await fetch(stack.apiUrl + path, { ...init, headers });
  const body = answerShape.parse(await answer.json());
  if (answer.status === 429) {
    const waitSeconds = Number(answer.headers.get('retry-after') ?? 1);
    process.stdout.write(`\r  the key's minute is used up: waiting ${waitSeconds} s `);
    await setTimeout(waitSeconds * 1000);
    return call(path, init);
  }
  return { status: answer.status, body, headers: answer.headers };
}

/** Follows a job to its end, with a line that moves. */
async function untilDone(ticket: Answer, title: string): Promise<Answer> {
  const startedAt = performance.now();
  for (;;) {
    const { body } = await call(`/api/v1/studio/jobs/${String(ticket.data?.['jobId'])}?wait=1`);
    const job = jobShape.parse(body.data);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
    process.stdout.write(`\r  ${title}: ${job.phase} ${seconds} s   `);
    if (job.error) throw new Error(`${job.error.code}: ${job.error.message}`);
    if (job.done) return { ...body, data: job.result ?? {} };
  }
}

async function save(url: string, name: string): Promise<string> {
  const file = await fetch(url);
  if (!file.ok) throw new Error(`the result URL answered ${file.status}`);
  const extension = new URL(url).pathname.split('.').at(-1) ?? 'bin';
  await writeFile(join(target, `${name}.${extension}`), Buffer.from(await file.arrayBuffer()));
  return `${name}.${extension}`;
}

const usageShape = z.object({ balance: z.object({ total: z.number() }) });
async function balance(): Promise<number> {
  const { body } = await call('/api/v1/usage?limit=1');
  return usageShape.parse(body).balance.total;
}

async function visit(step: TourStep, made: Made): Promise<TourStop> {
  const { path, init } = await step.request(made, call);
  const first = await call(path, init);
  if (first.status >= 400) throw new Error(`${first.body.error}: ${first.body.message}`);
  const answer = first.status === 202 ? await untilDone(first.body, step.title) : first.body;
  const data = answer.data ?? answer;
  step.keep?.(made, data);
  const urls = mediaUrls(data);
  return {
    title: step.title,
    path,
    credits: answer.credits?.used ?? Number(first.headers.get('x-credits-used') ?? 0),
    files: await Promise.all(urls.map((url, index) => save(url, `${step.name}-${index}`))),
    data,
  };
}

await mkdir(target, { recursive: true });
const before = await balance();
const made: Made = {};
const stops: TourStop[] = [];
let failures = 0;
for (const step of tourSteps) {
  const startedAt = performance.now();
  process.stdout.write(`  ${step.title} …`);
  try {
    // Each stop uses what the ones before it made.
    const stop = await visit(step, made);
    stops.push(stop);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1).padStart(5);
    const credits = stop.credits.toFixed(3).padStart(9);
    process.stdout.write(`\r✓ ${step.title.padEnd(34)} ${seconds} s ${credits} credits\n`);
  } catch (error) {
    failures += 1;
    const reason = error instanceof Error ? error.message : String(error);
    process.stdout.write(`\r✗ ${step.title}: ${reason}\n`);
  }
}

await writeFile(join(target, 'index.html'), tourPage(stops));
const used = stops.reduce((sum, stop) => sum + stop.credits, 0);
const charged = before - (await balance());
const audited = await fetch(`${stack.apiUrl}/api/admin/v1/audit`, {
  headers: { authorization: `Bearer ${stack.adminKey}` },
});
const { clean } = z.object({ clean: z.boolean() }).parse(await audited.json());
const equal = Math.abs(charged - used) < 1e-6;
console.log(`\n  ${join(target, 'index.html')}`);
console.log(
  `  credits named by the answers ${used.toFixed(3)}, charged by the ledger ${charged.toFixed(3)}: ` +
    `${equal ? 'equal' : 'NOT EQUAL'}; audit ${clean ? 'clean' : 'NOT CLEAN'}`,
);
process.exitCode = failures === 0 && equal && clean ? 0 : 1;
