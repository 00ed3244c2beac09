/** `studio jobs deliveries|redeliver`: the webhook of a job, and each attempt to deliver it. */
import type { Command } from 'commander';
import { z } from 'zod';
import { shortTime } from '../fields.ts';
import { list, table } from '../output.ts';
import { sessionOf } from '../session.ts';

const webhook = z.looseObject({
  jobId: z.string(),
  url: z.string(),
  state: z.string(),
  attempts: z.number(),
  nextAttemptAt: z.string().nullable(),
  deliveries: z.array(
    z.looseObject({
      number: z.number(),
      outcome: z.string(),
      status: z.number().nullable(),
      error: z.string().nullable(),
      response: z.string().nullable(),
      durationMs: z.number().nullable(),
      startedAt: z.string(),
    }),
  ),
});
/** The answer that holds a webhook. */
export const oneWebhook = z.looseObject({ data: webhook });

/** More of an answer does not fit a line. */
const responseShownMax = 60;

/** What is shown of a webhook. */
export function webhookText(data: z.infer<typeof webhook>): string {
  const head = list({
    job: data.jobId,
    url: data.url,
    state: data.state,
    attempts: data.attempts,
    next: shortTime(data.nextAttemptAt),
  });
  if (data.deliveries.length === 0) return head;
  const rows = data.deliveries.map((delivery) => ({
    '#': delivery.number,
    at: shortTime(delivery.startedAt),
    outcome: delivery.outcome,
    status: delivery.status,
    ms: delivery.durationMs,
    answer: delivery.error ?? delivery.response?.slice(0, responseShownMax),
  }));
  return `${head}\n${table(rows)}`;
}

const pathOf = (jobId: string): string =>
  `/api/v1/studio/jobs/${encodeURIComponent(jobId)}/webhook`;

/** Adds the commands to `studio jobs`. */
export function addWebhookCommands(jobs: Command): void {
  jobs
    .command('deliveries')
    .argument('<jobId>')
    .description('show the webhook of a job and each attempt to deliver it')
    .action(async (jobId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const { body, raw } = await session.api().send(pathOf(jobId), oneWebhook);
      session.output.show(raw, () => webhookText(body.data));
    });
  jobs
    .command('redeliver')
    .argument('<jobId>')
    .description('deliver the webhook of a job again, now')
    .action(async (jobId: string, _options: object, command: Command) => {
      const session = sessionOf(command);
      const path = `${pathOf(jobId)}/redeliver`;
      const { body, raw } = await session.api().send(path, oneWebhook, { method: 'POST' });
      session.output.show(raw, () => webhookText(body.data));
    });
}
