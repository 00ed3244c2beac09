/** Shows the steps of a pipeline in the job resource: their states, times and prices. */
import { z } from 'zod';
import { creditsFromMicro } from '../../domain/credits.ts';
import { isoTime } from '../../domain/json.ts';
import type { CallOutputs } from '../../domain/job-plan.ts';
import { isCallOf, type JobRecord, type JobStep } from '../../domain/job-record.ts';
import { finishStep, stepError, toStepError } from './pipeline-requests.ts';

const time = z.iso.datetime().nullable();

/** Schema of the steps in the job resource. */
export const stepsSchema = z
  .array(
    z
      .object({
        id: z.string(),
        use: z.string(),
        model: z.string().nullable(),
        after: z
          .array(z.string())
          .meta({ description: 'Ids of the steps whose results this step takes.' }),
        status: z.enum(['waiting', 'running', 'completed', 'failed', 'skipped', 'canceled']),
        takenFrom: z.string().nullable().meta({
          description: 'Job whose result the step has taken over; null if the step runs.',
        }),
        maxCredits: z.number().meta({
          description:
            'Most that the step is charged: its reserved price, and what a provider may report beyond the measured length of a recording.',
        }),
        credits: z.number().meta({ description: 'Charged credits; 0 until the job has ended.' }),
        startedAt: time,
        completedAt: time,
        error: stepError,
        data: z.record(z.string(), z.unknown()).nullable().meta({
          description:
            'Result of a step that has delivered while the job runs; afterwards, the result of the job contains it.',
        }),
      })
      .meta({ id: 'JobPipelineStep' }),
  )
  .nullable()
  .meta({ description: 'Steps of a pipeline; null for other jobs.' });
type ShownSteps = z.infer<typeof stepsSchema>;
type ShownStep = NonNullable<ShownSteps>[number];

/** Returns the outputs that the steps of a running pipeline have delivered. */
export const listDelivered = (job: JobRecord): CallOutputs[] =>
  (job.stepCalls ?? []).flatMap(({ outputs }) => outputs ?? []);

/** Shows the steps of a job. `data` contains the results of those that have delivered, by id. */
export function showSteps(
  job: JobRecord,
  data: ReadonlyMap<string, ShownStep['data']>,
): ShownSteps {
  return (
    job.steps?.map((step) => {
      const { id, use, model, after, takenFrom, priceMicro, allowanceMicro = 0 } = step;
      const calls = (job.stepCalls ?? []).filter(({ index }) => isCallOf(step, index));
      const status = findStatus(job, step);
      const outputs = (job.outputs ?? []).filter(({ callIndex }) => isCallOf(step, callIndex));
      return {
        id,
        use,
        model,
        after,
        status,
        takenFrom,
        maxCredits: creditsFromMicro(priceMicro + allowanceMicro),
        credits: creditsFromMicro(
          outputs.reduce((sum, { chargedMicro = 0 }) => sum + chargedMicro, 0),
        ),
        startedAt: isoTime(
          calls.length > 0 ? Math.min(...calls.map((call) => call.begunAtMs)) : null,
        ),
        completedAt: isoTime(findEnd(status, calls)),
        error: toStepError(job.outputs ? finishStep(step, job.outputs) : step),
        data: status === 'completed' ? (data.get(id) ?? null) : null,
      };
    }) ?? null
  );
}

/** Finds the end of a step in Unix ms. Null while the step runs, and if it has made no call. */
function findEnd(
  status: ShownStep['status'],
  calls: NonNullable<JobRecord['stepCalls']>,
): number | null {
  if (status === 'running' || calls.length === 0) return null;
  return Math.max(...calls.map(({ answeredAtMs, changedAtMs }) => answeredAtMs ?? changedAtMs));
}

function findStatus(job: JobRecord, step: JobStep): ShownStep['status'] {
  const calls = (job.stepCalls ?? []).filter(({ index }) => isCallOf(step, index));
  if (job.outputs) {
    const { status, error } = finishStep(step, job.outputs);
    return error?.code === 'CANCELED' ? 'canceled' : status;
  }
  if (step.takenFrom !== null) return 'completed';
  if (job.status === 'open') {
    const isDelivered =
      calls.length === step.calls[1] && calls.every(({ state }) => state === 'answered');
    return calls.length === 0 ? 'waiting' : isDelivered ? 'completed' : 'running';
  }
  if (job.status === 'canceled') return 'canceled';
  return calls.length === 0 ? 'skipped' : 'failed';
}
