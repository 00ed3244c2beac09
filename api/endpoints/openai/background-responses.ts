/** Endpoints of background responses of OpenAI's Responses API, which are chat jobs. */
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import type { JobRecord } from '../../../domain/job-record.ts';
import { awaitCancel } from '../../../studio/jobs/job-endings.ts';
import { requestCancel } from '../../../studio/jobs/job-execution.ts';
import type { Composition } from '../../composition.ts';
import { defineEndpoint, rawResponse, type EndpointCall } from '../endpoint.ts';
import { pathId } from '../fields.ts';
import { findJob } from '../studio-jobs.ts';
import { responseResource } from './response-schema.ts';
import { notFound, readAnswer, showResponse, streamResponse } from './stored-responses.ts';

const request = { params: z.object({ jobId: pathId('job') }) };

/** Finds the job of a response. @throws GatewayError NOT_FOUND, JOB_ARCHIVED */
async function findResponse(
  call: Pick<EndpointCall<typeof request>, 'caller' | 'params'>,
  services: Composition,
): Promise<JobRecord> {
  const job = await findJob(call, services).catch((error: unknown) => {
    throw error instanceof GatewayError && error.code === 'JOB_NOT_FOUND' ? notFound() : error;
  });
  await readAnswer(services, job);
  return job;
}

/** Cancels a chat job, and waits for its end some seconds. Returns the job, also if it has ended. */
async function cancelResponse(
  { client, jobWaits }: Composition,
  job: JobRecord,
): Promise<JobRecord> {
  if (job.status !== 'open') return job;
  await requestCancel(client, job.id);
  return awaitCancel(jobWaits, job);
}

const flag = z.enum(['true', 'false']).optional();

/** Endpoints of stored responses. */
export const backgroundResponses = {
  getResponse: defineEndpoint({
    route: 'GET /api/v1/responses/:jobId',
    scope: 'chat',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'Get a background response (OpenAI-compatible)',
    description:
      'Background responses are stored for a limited time, by default for 24 hours. With `stream=true`, the events of the response are sent: all of them, or those behind the number `starting_after`. ' +
      'Events of an interrupted stream are sent again without a further charge.',
    request: {
      ...request,
      query: z.object({
        stream: flag,
        starting_after: z.coerce.number().int().min(0).optional().meta({
          description: 'Number (`sequence_number`) of the last event that the client has received.',
        }),
      }),
    },
    response: rawResponse,
    responses: {
      200: {
        description: 'The response. With `stream=true` it is sent as server-sent events.',
        schema: responseResource,
        event: z.object({ event: z.string(), data: z.string() }),
      },
    },
    errors: ['NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, query, ...call }, services) {
      const job = await findResponse(call, services);
      const { starting_after: startingAfter = -1 } = query;
      if (query.stream === 'true') return streamResponse(ctx, { job, startingAfter }, services);
      ctx.body = await showResponse(services, job);
    },
  }),

  cancelResponse: defineEndpoint({
    route: 'POST /api/v1/responses/:jobId/cancel',
    scope: 'chat',
    errorFormat: 'openai',
    summary: 'Cancel a background response (OpenAI-compatible)',
    description:
      'What the provider has delivered is charged. A response that has ended is returned unchanged.',
    request,
    response: responseResource,
    errors: ['NOT_FOUND', 'JOB_ARCHIVED'],
    async handle(call, services) {
      const job = await findResponse(call, services);
      return responseResource.parse(
        await showResponse(services, await cancelResponse(services, job)),
      );
    },
  }),

  deleteResponse: defineEndpoint({
    route: 'DELETE /api/v1/responses/:jobId',
    scope: 'chat',
    errorFormat: 'openai',
    summary: 'Delete a background response (OpenAI-compatible)',
    description: 'Deletes the texts of the response. A response that has not ended is canceled.',
    request,
    response: z.object({
      id: z.string(),
      object: z.literal('response'),
      deleted: z.literal(true),
    }),
    errors: ['NOT_FOUND', 'JOB_ARCHIVED'],
    async handle(call, services) {
      const job = await findResponse(call, services);
      await cancelResponse(services, job);
      await services.chatJobs.hide(job.id);
      return { id: job.id, object: 'response' as const, deleted: true as const };
    },
  }),
};
