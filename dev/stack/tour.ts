/**
 * `npm run demo`: calls every Studio endpoint of the running stack. Saves the media and a page that
 * shows them in DATA_DIR/demo. At the end, compares the credits in the responses with the ledger.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { z } from 'zod';
import { readStack } from './stack-file.ts';
import { mediaUrls, tourSteps, type EarlierResults, type TourStep } from './tour-steps.ts';

/** Completed step and its results. */
interface CompletedStep {
  title: string;
  path: string;
  credits: number;
  /** Names of the saved files. */
  files: string[];
  data: unknown;
}

/** Returns the HTML page that shows the results. */
function tourPage(completed: readonly CompletedStep[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Studio Gateway: demo results</title>
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
<h1>Demo results</h1>
<main>
${completed.map(section).join('\n')}
</main>
</body>
</html>
`;
}

function section(completedStep: CompletedStep): string {
  return `<article>
<h2>${escapeHtml(completedStep.title)}</h2>
<p>${escapeHtml(completedStep.path)} · ${completedStep.credits.toFixed(3)} credits</p>
${completedStep.files.map(mediaElement).join('\n')}
<details><summary>Response</summary><pre>${escapeHtml(JSON.stringify(completedStep.data, null, 2).slice(0, 8000))}</pre></details>
</article>`;
}

function mediaElement(file: string): string {
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

const jsonObject = z.record(z.string(), z.unknown());
/** Schema of the response fields that the demo reads. */
const responseSchema = z.looseObject({
  data: jsonObject.optional(),
  // In the usage response, this field is a number.
  credits: z.object({ used: z.number() }).optional().catch(undefined),
  error: z.string().optional(),
  message: z.string().optional(),
});
const jobSchema = z.object({
  phase: z.string(),
  done: z.boolean(),
  result: jsonObject.nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});
type ResponseBody = z.infer<typeof responseSchema>;

interface ApiResponse {
  status: number;
  body: ResponseBody;
  headers: Headers;
}

const dataDir = resolve(process.env['DATA_DIR'] ?? '.data');
const target = join(dataDir, 'demo');

const stack = readStack(dataDir) ?? exitWithoutStack();

function exitWithoutStack(): never {
  console.error('The stack is not running: first run `npm start` in another terminal.');
  return process.exit(1);
}

/** Replaces the current line of a terminal; prints nothing if the output is not a terminal. */
function showProgress(text: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r  ${text}\u001B[K`);
}

/** Prints a line, which replaces the progress of a terminal. */
function printResult(text: string): void {
  process.stdout.write(process.stdout.isTTY ? `\r${text}\u001B[K\n` : `${text}\n`);
}

async function call(path: string, init: RequestInit = {}): Promise<ApiResponse> {
  const headers = new Headers(init.headers);
  headers.set('authorization', `Bearer ${stack.apiKey}`);
  if (typeof init.body === 'string') headers.set('content-type', 'application/json');
  const response = await fetch(stack.apiUrl + path, { ...init, headers });
  const body = responseSchema.parse(await response.json());
  if (response.status === 429) {
    const waitSeconds = Number(response.headers.get('retry-after') ?? 1);
    showProgress(`rate limit reached, waiting ${waitSeconds} s`);
    await setTimeout(waitSeconds * 1000);
    return call(path, init);
  }
  return { status: response.status, body, headers: response.headers };
}

/** Polls a job until it ends, and shows its progress. */
async function untilDone(ticket: ResponseBody, title: string): Promise<ResponseBody> {
  const startedAt = performance.now();
  for (;;) {
    const { body } = await call(`/api/v1/studio/jobs/${String(ticket.data?.['jobId'])}?wait=1`);
    const job = jobSchema.parse(body.data);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
    showProgress(`${title}: ${job.phase} ${seconds} s`);
    if (job.error) throw new Error(`${job.error.code}: ${job.error.message}`);
    if (job.done) return { ...body, data: job.result ?? {} };
  }
}

async function save(url: string, name: string): Promise<string> {
  const file = await fetch(url);
  if (!file.ok) throw new Error(`the result URL returned HTTP ${file.status}`);
  const extension = new URL(url).pathname.split('.').at(-1) ?? 'bin';
  await writeFile(join(target, `${name}.${extension}`), Buffer.from(await file.arrayBuffer()));
  return `${name}.${extension}`;
}

const usageSchema = z.object({ balance: z.object({ total: z.number() }) });
async function readBalance(): Promise<number> {
  const { body } = await call('/api/v1/usage?limit=1');
  return usageSchema.parse(body).balance.total;
}

async function runStep(step: TourStep, earlier: EarlierResults): Promise<CompletedStep> {
  const { path, init } = await step.request(earlier, call);
  const first = await call(path, init);
  if (first.status >= 400) throw new Error(`${first.body.error}: ${first.body.message}`);
  const response = first.status === 202 ? await untilDone(first.body, step.title) : first.body;
  const data = response.data ?? response;
  step.storeResult?.(earlier, data);
  const urls = mediaUrls(data);
  return {
    title: step.title,
    path,
    credits: response.credits?.used ?? Number(first.headers.get('x-credits-used') ?? 0),
    files: await Promise.all(urls.map((url, index) => save(url, `${step.name}-${index}`))),
    data,
  };
}

await mkdir(target, { recursive: true });
const before = await readBalance();
const earlier: EarlierResults = {};
const completed: CompletedStep[] = [];
let failures = 0;
for (const step of tourSteps) {
  const startedAt = performance.now();
  showProgress(`${step.title} …`);
  try {
    // The steps run one after another, because each uses results of earlier ones.
    const completedStep = await runStep(step, earlier);
    completed.push(completedStep);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1).padStart(5);
    const credits = completedStep.credits.toFixed(3).padStart(9);
    printResult(`✓ ${step.title.padEnd(34)} ${seconds} s ${credits} credits`);
  } catch (error) {
    failures += 1;
    const reason = error instanceof Error ? error.message : String(error);
    printResult(`✗ ${step.title}: ${reason}`);
  }
}

await writeFile(join(target, 'index.html'), tourPage(completed));
const used = completed.reduce((sum, { credits }) => sum + credits, 0);
const charged = before - (await readBalance());
const auditResponse = await fetch(`${stack.apiUrl}/api/admin/v1/audit`, {
  headers: { authorization: `Bearer ${stack.adminKey}` },
});
const { clean } = z.object({ clean: z.boolean() }).parse(await auditResponse.json());
const equal = Math.abs(charged - used) < 1e-6;
console.log(`\n  ${join(target, 'index.html')}`);
console.log(
  `  credits in the responses ${used.toFixed(3)}, charged in the ledger ${charged.toFixed(3)}: ` +
    `${equal ? 'equal' : 'NOT EQUAL'}; audit ${clean ? 'clean' : 'NOT CLEAN'}`,
);
process.exitCode = failures === 0 && equal && clean ? 0 : 1;
