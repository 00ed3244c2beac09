/**
 * Activity interceptor. It adds ids to log lines, records a span for each activity, and records a
 * span for each job when the job is settled.
 */
import { SpanKind, type Context as TraceContext, type Link } from '@opentelemetry/api';
import type { Context } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { sql } from 'slonik';
import { z } from 'zod';
import { creditsFromMicro } from '../domain/credits.ts';
import { isId } from '../domain/ids.ts';
import { withCorrelation } from '../platform/logger.ts';
import type { DatabasePool } from '../platform/database.ts';
import { inSpan, recordSpan } from '../platform/telemetry.ts';
import { readRequestContext } from '../platform/temporal.ts';

interface ActivityContextDeps {
  pool: DatabasePool;
  usdPerCredit: number;
}

/**
 * Creates the activity interceptor. Log lines of an activity contain the ids of its request and its
 * job. The span of an activity is a child of the span of the request that started the workflow, and
 * is linked to the trace of the last signal that the workflow received.
 */
export function createActivityContext(deps: ActivityContextDeps): ActivityInterceptorsFactory {
  return (context) => ({
    inbound: {
      execute(input, next) {
        const { parent, links, ...request } = readRequestContext(input.headers);
        const { info } = context;
        const attributes = {
          'workflow.id': info.workflowExecution?.workflowId ?? '',
          'workflow.type': info.workflowType ?? '',
          'activity.attempt': info.attempt,
        };
        const ids = getIds(context);
        const name = `activity ${info.activityType}`;
        const spanStart = { name, kind: SpanKind.CONSUMER, parent, links, attributes };
        return withCorrelation({ ...request, ...ids }, () =>
          inSpan(spanStart, async (span) => {
            const result: unknown = await next(input);
            const { jobId } = ids;
            if (
              jobId !== undefined &&
              span.isRecording() &&
              settledResult.safeParse(result).success
            ) {
              // An error is ignored here, because it must not fail an activity that has settled the
              // job.
              await recordJob(deps, { jobId, parent, links }).catch(() => {});
            }
            return result;
          }),
        );
      },
    },
  });
}

/** Schema of the result of an activity that has settled a job: `charge` or `release`. */
const settledResult = z.object({ verdict: z.literal('settled') });

const jobRow = z.object({
  type: z.string(),
  model: z.string().nullable(),
  provider: z.string(),
  status: z.string(),
  code: z.string().nullable(),
  organizationId: z.string(),
  keyId: z.string(),
  requestId: z.string(),
  createdAtMs: z.number(),
  settledAtMs: z.number(),
  chargedMicro: z.number(),
});

/**
 * Records the span of a job that an activity has settled. The span has the attributes of
 * OpenTelemetry's conventions for generative AI.
 */
async function recordJob(
  { pool, usdPerCredit }: ActivityContextDeps,
  { jobId, parent, links }: { jobId: string; parent: TraceContext; links: Link[] },
): Promise<void> {
  const job = await pool.maybeOne(sql.type(jobRow)`
    SELECT j.type, j.model, j.provider, j.status, j.error->>'code' AS code,
      j.organization_id AS "organizationId", j.key_id AS "keyId", j.request_id AS "requestId",
      j.created_at AS "createdAtMs", r.settled_at AS "settledAtMs",
      coalesce(r.charged, 0) AS "chargedMicro"
    FROM job j JOIN reservation r ON r.id = j.id WHERE j.id = ${jobId}`);
  if (!job) return;
  const credits = creditsFromMicro(job.chargedMicro);
  const attributes = {
    'gen_ai.operation.name': 'generate_content',
    'gen_ai.provider.name': job.provider,
    ...(job.model !== null && { 'gen_ai.request.model': job.model }),
    'gen_ai.usage.cost': credits * usdPerCredit,
    'gateway.credits.charged': credits,
    'gateway.organization.id': job.organizationId,
    'gateway.key.id': job.keyId,
    'gateway.job.id': jobId,
    'gateway.job.status': job.status,
    'request.id': job.requestId,
    ...(job.code !== null && { 'error.type': job.code }),
  };
  const name = `generate_content ${job.model ?? job.type}`;
  const spanStart = { name, kind: SpanKind.INTERNAL, parent, links, attributes };
  const hasFailed = job.code !== null;
  recordSpan(
    { ...spanStart, startTime: job.createdAtMs },
    { endedAtMs: job.settledAtMs, hasFailed },
  );
}

/**
 * Returns the job id and the workflow id of an activity. The workflow id of a job equals its job
 * id; the workflow id of its webhook delivery begins with the job id (domain/job-contract.ts).
 */
function getIds({ info }: Context): { jobId?: string; workflowId?: string } {
  const workflowId = info.workflowExecution?.workflowId;
  if (workflowId === undefined) return {};
  const [jobId = ''] = workflowId.split(/[-.]/, 1);
  return { ...(isId('job', jobId) && { jobId }), workflowId };
}
