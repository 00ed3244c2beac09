/** POST /api/v1/studio/…: one endpoint for each capability of the registry. */
import { z } from 'zod';
import { type ErrorCode, assert } from '../../domain/errors.ts';
import { getRequiredScope, type Capability } from '../../studio/capabilities/capability.ts';
import { creditsSchema } from '../../studio/jobs/job-view.ts';
import { jobKinds } from '../../studio/pipelines/job-kinds.ts';
import { pipelines } from '../../studio/pipelines/pipeline-requests.ts';
import { resumePipeline, resumeRequest } from '../../studio/pipelines/resume.ts';
import { endUserHeader } from '../http/request-headers.ts';
import type { Composition } from '../composition.ts';
import { readResume } from './studio-body.ts';
import { findJob, jobPath, jobRequest } from './studio-jobs.ts';
import { splitEndUser } from '../../domain/end-users.ts';
import { metadataFields } from '../../domain/metadata.ts';
import { estimateBody, submitRequest, type RequestOptions } from './studio-requests.ts';
import { estimateSchema } from '../../studio/requests/prices.ts';
import { recipeFields } from '../../studio/requests/recipe-versions.ts';
import type { ParsedRequest } from '../../studio/requests/request-draft.ts';
import { webhookFields } from '../../studio/requests/webhook-fields.ts';
import { toData, dataSchema } from './fields.ts';
import type { ResponseDescription } from './description.ts';
import { defineEndpoint, defineSection, type Endpoint, type EndpointCall } from './endpoint.ts';
import {
  creditHeaders,
  fileErrors,
  jobHeader,
  resultHeaders,
  studioErrors,
  studioHeaders,
  readResult,
  setCreditsHeaders,
  buildAcceptedResponse,
  acceptedResponse,
} from './studio-results.ts';

/** Error codes of estimates: those that a request can return before it reserves credits. */
const estimateErrors: readonly ErrorCode[] = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'PRICE_LIMIT_EXCEEDED',
  ...fileErrors,
];

/** Fields that all Studio requests share. */
const commonFields = { ...webhookFields, ...metadataFields };

/** Fields that all Studio requests to a capability's own endpoint share. */
const requestFields = { ...commonFields, ...recipeFields };

/** Studio endpoints, two per capability: the request and its price estimate. */
export const studio: readonly Endpoint[] = jobKinds.flatMap((capability) => {
  const endpoint = defineEndpoint({
    route: `POST /api/v1${capability.path}`,
    scope: getRequiredScope(capability),
    allowsTokens: true,
    summary: capability.summary,
    // Query parameters are rejected. If they were ignored, a misplaced parameter would go unnoticed
    // and the request would be charged.
    request: {
      headers: studioHeaders,
      query: z.strictObject({}),
      content: describeBody(capability),
    },
    response: z.unknown(),
    responses: describeResponses(capability),
    errors: [
      ...studioErrors,
      ...fileErrors,
      ...(capability.medium === 'mixed' ? (['PRICE_LIMIT_EXCEEDED'] as const) : []),
    ],
    handle: ({ ctx }, services) => submitAndRespond(ctx, { capability }, services),
  });
  const estimate = defineEndpoint({
    route: `POST /api/v1${capability.path}/estimate`,
    scope: getRequiredScope(capability),
    allowsTokens: true,
    summary: `Estimate the price: ${capability.summary}`,
    description:
      'Accepts the request body and returns the credits that the request would reserve, per item. No job is started, and no ' +
      'credits are reserved or charged. Inputs whose size or length affects the price are measured.',
    request: { headers: endUserHeader, content: describeBody(capability) },
    response: dataSchema(estimateSchema),
    errors: estimateErrors.filter((code) => endpoint.errors.includes(code)),
    handle: async ({ ctx }, services) => toData(await estimateBody(ctx, capability, services)),
  });
  const tag = capability.medium === 'mixed' ? 'pipelines' : capability.medium;
  return defineSection(`Studio: ${tag}`, {
    [capability.type]: endpoint,
    [`${capability.type}Estimate`]: estimate,
  });
});

/** Submits a request, and responds with the result or, if it takes longer, with the job. */
async function submitAndRespond(
  ctx: EndpointCall['ctx'],
  options: RequestOptions,
  services: Composition,
): Promise<unknown> {
  const { view } = services;
  const { job, waited } = await submitRequest(ctx, options, services);
  ctx.set('X-Job-Id', job.id);
  const data = waited && (await readResult(job, view));
  if (!data) return buildAcceptedResponse(ctx, job, view);
  const credits = view.credits(job);
  ctx.status = 200;
  if (options.capability.envelope !== 'bare') return { ...toData(data), credits };
  setCreditsHeaders(ctx, credits);
  return data;
}

/** Endpoint that resumes a pipeline as a new job. */
export const resumePipelines = defineSection('Studio: pipelines', {
  resumePipeline: defineEndpoint({
    route: `POST ${jobPath}/:jobId/resume`,
    scope: getRequiredScope(pipelines),
    summary: 'Resume a pipeline',
    description:
      'Starts a new job that takes over the results of the steps that succeeded, at the price 0, and runs the others. ' +
      'With `from`, that step and all that depend on it run again.',
    request: {
      ...jobRequest,
      headers: studioHeaders,
      query: z.strictObject({}),
      content: {
        'application/json': {
          schema: resumeRequest.safeExtend(commonFields),
          example: { from: 'film', bodies: { film: { prompt: 'calm waves' } } },
        },
      },
    },
    response: z.unknown(),
    responses: describeResponses(pipelines),
    errors: [
      ...studioErrors,
      ...fileErrors,
      'PRICE_LIMIT_EXCEEDED',
      'JOB_NOT_FOUND',
      'JOB_ARCHIVED',
      'JOB_NOT_DONE',
      'MEDIA_DELETED',
    ],
    async handle({ ctx, ...call }, services) {
      const parsed = await readResume(ctx, services);
      const parent = await findJob(call, services);
      const { capability, request, checkFiles } = await resumePipeline(
        parent,
        parsed.resume,
        services,
      );
      const readBody = (): ParsedRequest => ({
        ...parsed.options,
        endUserDefault: splitEndUser(parent.metadata).endUser,
        request,
        async storeFiles() {
          await checkFiles();
          // The texts of the steps are known from here on, so the request is planned again.
          return { request };
        },
      });
      return submitAndRespond(ctx, { capability, readBody }, services);
    },
  }),
});

function describeBody(capability: Capability) {
  const { example, upload, request, describedRequest = request } = capability;
  const json = { schema: addCommonFields(describedRequest), example };
  if (!upload) return { 'application/json': json };
  const file = z.string().meta({
    format: 'binary',
    description: `File of at most ${upload.bytesMax} bytes. The other parts of the form are the fields of the JSON body.`,
  });
  const form = z.looseObject({
    [upload.field]: file,
    webhookUrl: webhookFields.webhookUrl,
    webhookEvents: z
      .string()
      .optional()
      .meta({ description: 'Same value as in the JSON body, encoded as JSON.' }),
    metadata: z
      .string()
      .optional()
      .meta({ description: 'Same value as in the JSON body, encoded as JSON.' }),
    endUser: metadataFields.endUser,
    ...recipeFields,
  });
  return { 'application/json': json, 'multipart/form-data': { schema: form } };
}

/**
 * Adds the common fields to the schema of a request body. The returned schema describes the body
 * before transforms.
 */
function addCommonFields(request: z.ZodType): z.ZodType {
  const inputSchema = request instanceof z.ZodPipe ? request.in : request;
  assert(inputSchema instanceof z.ZodObject, 'the schema of a request must be an object');
  return inputSchema.safeExtend(requestFields);
}

function describeResponses(capability: Capability): Record<number, ResponseDescription> {
  return {
    200: describeResult(capability),
    202: {
      description: 'The job was accepted and its credits are reserved. Poll `statusUrl`.',
      headers: jobHeader.extend({ Location: z.url(), 'Retry-After': z.int() }),
      schema: acceptedResponse,
    },
  };
}

function describeResult({ envelope, data }: Capability): ResponseDescription {
  if (envelope === 'bare') {
    return {
      description:
        'The result of the charged job, without an envelope. After a 202, the job’s `result` contains the same object.',
      headers: creditHeaders,
      schema: data,
    };
  }
  return {
    description: 'The result of the charged job.',
    headers: resultHeaders,
    schema: dataSchema(data).extend({ credits: creditsSchema }),
  };
}
