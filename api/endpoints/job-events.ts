/** Endpoints that stream the events of one job, or of all jobs of an organization. */
import { z } from 'zod';
import { addEndUser } from '../../domain/end-users.ts';
import { rowsPerReadMax } from '../../executions/feed.ts';
import { respondWithEvents } from '../http/event-stream.ts';
import { defineEndpoint, rawResponse, defineSection } from './endpoint.ts';
import { findJob, jobPath as path, jobRequest as request } from './studio-jobs.ts';

/** Description of the response with an event stream. */
const eventStreamResponse = {
  200: {
    description: 'The events.',
    type: 'text/event-stream',
    schema: z.object({ event: z.literal('job'), data: z.string() }),
  },
};

/**
 * Endpoints that stream events. They must be registered before the endpoint of one job, whose route
 * would match `events` as a job id.
 */
export const jobEvents = defineSection('Jobs', {
  streamJobs: defineEndpoint({
    route: `GET ${path}/events`,
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'Stream the changes of all jobs of the organization',
    description:
      'Sends server-sent events named `job`, each with one job: first all open jobs, then every job that is created, changes or ends. ' +
      'The stream ends if the key loses access or if an event may have been lost; then reconnect and list the jobs.',
    response: rawResponse,
    responses: eventStreamResponse,
    async handle({ ctx, caller }, { jobFeed, reads }) {
      const { organizationId, token } = caller;
      const metadata = addEndUser(null, token?.endUser ?? null) ?? undefined;
      const listCurrent = () =>
        reads.list(organizationId, { status: 'open', metadata, limit: rowsPerReadMax });
      await respondWithEvents(ctx, { caller, id: null, listCurrent }, jobFeed);
    },
  }),

  streamJob: defineEndpoint({
    route: `GET ${path}/:jobId/events`,
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'Stream the changes of a job',
    description:
      'Sends server-sent events named `job`, each with the job. The stream ends when the job has ended.',
    request,
    response: rawResponse,
    responses: eventStreamResponse,
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, ...call }, services) {
      const job = await findJob(call, services);
      const listCurrent = () => Promise.resolve([job]);
      await respondWithEvents(
        ctx,
        { caller: call.caller, id: job.id, listCurrent },
        services.jobFeed,
      );
    },
  }),
});
