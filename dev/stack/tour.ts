/**
 * `npm run demo`: calls every Studio endpoint of the running stack once. The media are saved below
 * DATA_DIR/demo with a page that shows them; at the end the credits of the responses are compared
 * with the ledger.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { z } from 'zod';
import { readStack } from './stack-file.ts';
import { mediaUrls, tourSteps, type Made, type TourStep } from './tour-steps.ts';

/** One call and its results. */
interface TourStop {
  title: string;
  path: string;
  credits: number;
  /** Names of the saved files. */
  files: string[];
  data: unknown;
}

/** Returns the page as HTML. */
function tourPage(stops: readonly TourStop[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Studio Gateway: what the demo made</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2430; background: #f6f7f9; }
  main { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1.25rem; }
  article { background: #fff; border: 1px solid #dfe3e8; border-radius: 10px; padding: 1rem; overflow: hidden; }
  h2 { font-size: 1.05rem; margin: 0 0 .25rem; }
  p { margin: 0 0 .75rem; color: #5b6675; font-size: .85rem; }
  img, video, audio { width: 100%; border-radius: 6px; margin-bottom: .5rem; }
  img { background: repeating-conic-gradient(#dfe3e8 0 25%, #fff 0 50%) 0 0 / 20px 20px; }
  details pre { font-size: .75rem; overflow: auto; max-height: 18rem; background: #f6f7f9; padding: .5rem; }
</style>
</head>
<body>
<h1>What the demo made</h1>
<main>
${stops.map(section).join('\n')}
</main>
</body>
</html>
`;
}

function section(stop: TourStop): string {
  return `<article>
<h2>${escapeHtml(stop.title)}</h2>
<p>${escapeHtml(stop.path)} · ${stop.credits.toFixed(3)} credits</p>
${stop.files.map(player).join('\n')}
<details><summary>answer</summary><pre>${escapeHtml(JSON.stringify(stop.data, null, 2).slice(0, 8000))}</pre></details>
</article>`;
}

function player(file: string): string {
  const name = escapeHtml(file);
  if (/\.(png|jpe?g|webp)$/.test(file)) return `<img src="${name}" alt="${name}" loading="lazy">`;
  if (/\.(mp4|webm)$/.test(file))
    return `<video src="${name}#t=0.1" preload="auto" controls muted loop></video>`;
  if (/\.(mp3|wav)$/.test(file)) return `<audio src="${name}" controls></audio>`;
  return `<a href="${name}">${name}</a>`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

const record = z.record(z.string(), z.unknown());
/** Fields that all responses share. */
const answerShape = z.looseObject({
  data: record.optional(),
  // The usage response has a number in this field.
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

const stack = readStack(dataDir) ?? refuse();

function refuse(): never {
  console.error('No running stack: `npm start` in another terminal first.');
  return process.exit(1);
}

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

/** Follows a job to its end and prints its progress. */
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
    // Sequential, because each step uses results of the earlier ones.
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
