/** Submits Studio jobs, waits until they end and prints their results. */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { ApiClient } from './api-client.ts';
import { findMediaUrls, saveMedia, standardOutput } from './media.ts';
import { formatList, type Output } from './output.ts';
import type { Session } from './session.ts';

const credits = z.looseObject({ used: z.number(), cost: z.number(), remaining: z.number() });

/** Schema of the job fields that commands read. */
const jobResource = z.looseObject({
  jobId: z.string(),
  type: z.string(),
  model: z.string().nullable(),
  status: z.string(),
  done: z.boolean(),
  phase: z.string(),
  createdAt: z.string(),
  result: z.unknown(),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  billing: z.looseObject({ state: z.string(), reserved: z.number(), charged: z.number() }),
});
/** Schema of a response that contains a job. */
export const jobResponse = z.looseObject({ data: jobResource });
const studioResponse = z.looseObject({ data: z.looseObject({}), credits: credits.optional() });
const acceptedJob = z.looseObject({ jobId: z.string(), statusUrl: z.string() });

/** Job, and the JSON response body that contained it (`raw`). */
interface JobResponse {
  job: z.infer<typeof jobResource>;
  raw: unknown;
}

/** Returns the request path of a job. */
export const jobPath = (jobId: string): string =>
  `/api/v1/studio/jobs/${encodeURIComponent(jobId)}`;

/** Maximum time that the API waits for a change of the job before it answers a poll. */
const pollWaitSeconds = 2;

/** Polls a job until it ends, and prints each new phase. */
export async function watchJob(
  api: ApiClient,
  jobId: string,
  output: Output,
): Promise<JobResponse> {
  const startedAt = performance.now();
  // The first poll does not wait, so that the phase is printed immediately. Later polls wait until
  // the job changes.
  for (let waitSeconds = 0; ; waitSeconds = pollWaitSeconds) {
    const { body, raw } = await api.send(jobPath(jobId), jobResponse, {
      query: { wait: waitSeconds },
    });
    const elapsedSeconds = Math.round((performance.now() - startedAt) / 1000);
    output.showProgress(formatProgress(body.data, process.stderr.isTTY ? elapsedSeconds : null));
    if (body.data.done) {
      output.endProgress();
      return { job: body.data, raw };
    }
    // Limits the rate of polls if the server responds immediately.
    await sleep(100);
  }
}

function formatProgress(job: JobResponse['job'], seconds: number | null): string {
  const state = job.done ? job.status : job.phase;
  return `${job.jobId}  ${state}${seconds === null ? '' : `  ${seconds} s`}`;
}

/** Prints a job, and saves its media if `out` is set. Returns false if the job failed. */
export async function showJob(
  output: Output,
  { job, raw }: JobResponse,
  out?: string,
): Promise<boolean> {
  const { savedPaths, fields } = await saveResult(job.result, out);
  showFields(
    output,
    { raw, out },
    formatList({
      job: job.jobId,
      type: job.type,
      model: job.model,
      status: job.done ? job.status : `${job.status} (${job.phase})`,
      credits: job.billing.state === 'charged' ? job.billing.charged : job.billing.reserved,
      billing: job.billing.state,
      ...(job.error && { error: `${job.error.code}: ${job.error.message}` }),
      ...fields,
    }),
  );
  // With --json, standard output contains only JSON, so the paths are printed to standard error.
  if (output.json) for (const path of savedPaths) output.note(`saved ${path}`);
  return job.error === null;
}

/** Saves the media if `out` is set. Returns the saved paths, and the fields to print. */
async function saveResult(result: unknown, out: string | undefined) {
  const urls = findMediaUrls(result);
  const savedPaths = out !== undefined && urls.length > 0 ? await saveMedia(urls, out) : [];
  const files = savedPaths.length > 0 ? savedPaths : urls;
  const label = savedPaths.length > 0 ? 'saved' : 'url';
  const numberedFiles = files.map((file, index): [string, string] => [
    files.length > 1 ? `${label} ${index + 1}` : label,
    file,
  ]);
  const { data } = z.object({ text: z.string() }).safeParse(result);
  return {
    savedPaths,
    fields: { ...Object.fromEntries(numberedFiles), ...(data && { text: data.text }) },
  };
}

interface Submission {
  /** Path of the endpoint below /api/v1/studio. */
  path: string;
  body?: object;
  form?: FormData;
  /** True to wait until the job ends; false to print its id immediately. */
  wait: boolean;
  /** File name or directory to save the media to. Undefined to save nothing. */
  out?: string | undefined;
}

/**
 * Submits a Studio request. Prints its result, or the job id if `wait` is false. Returns false if
 * the job failed.
 */
export async function submitJob(session: Session, submission: Submission): Promise<boolean> {
  const api = session.client('caller');
  const { output } = session;
  const { body, raw, status } = await api.send(`/api/v1/studio${submission.path}`, studioResponse, {
    ...(submission.body && { body: submission.body }),
    ...(submission.form && { form: submission.form }),
    // Requests an immediate response. The command then polls the job and prints its progress.
    headers: { prefer: 'respond-async' },
    // A form cannot be retried, because its body is a stream.
    canRetry: submission.form === undefined,
  });
  const accepted = acceptedJob.safeParse(body.data);
  if (status !== 202 || !accepted.success) {
    await showResult(output, { data: body.data, raw }, submission.out);
    return true;
  }
  const { jobId } = accepted.data;
  if (!submission.wait) {
    output.show(
      raw,
      () => `${formatList({ job: jobId })}To watch the job: studio jobs watch ${jobId}\n`,
    );
    return true;
  }
  return showJob(output, await watchJob(api, jobId, output), submission.out);
}

async function showResult(
  output: Output,
  { data, raw }: { data: object; raw: unknown },
  out: string | undefined,
): Promise<void> {
  const { fields } = await saveResult(data, out);
  const text =
    Object.keys(fields).length > 0 ? formatList(fields) : `${JSON.stringify(data, null, 2)}\n`;
  showFields(output, { raw, out }, text);
}

/** Prints a result. With `--out -`, standard output is the file, so the text goes to standard error. */
function showFields(
  output: Output,
  { raw, out }: { raw: unknown; out: string | undefined },
  text: string,
): void {
  if (out === standardOutput) output.note(text.trimEnd());
  else output.show(raw, () => text);
}
