/** The webhook of a job and the attempts to deliver it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ApiError, answered, api, type Job, type Schemas } from '../../gateway/client.ts';
import { Refusal } from '../../parts/states.tsx';
import { Moment, State, durationText } from '../../parts/values.tsx';

/** Shows the webhook; nothing if the job has none. */
export function JobWebhook({ job }: { job: Job }) {
  const { jobId } = job;
  const client = useQueryClient();
  const params = { path: { jobId } };
  const queryKey = ['timeline', jobId, 'webhook'];
  const { data } = useQuery({ queryKey, queryFn: () => webhookOf(jobId) });
  const redeliver = useMutation({
    mutationFn: () =>
      answered(api.POST('/api/v1/studio/jobs/{jobId}/webhook/redeliver', { params })),
    onSuccess: () => client.invalidateQueries({ queryKey }),
  });
  if (!data) return null;
  return (
    <section className="card stack">
      <div className="head">
        <h2>Webhook</h2>
        <State of={data.state} />
        <button type="button" onClick={() => redeliver.mutate()} disabled={redeliver.isPending}>
          Deliver again
        </button>
      </div>
      <code>{data.url}</code>
      <Deliveries deliveries={data.deliveries} />
      {job.done && (
        <details>
          <summary>Request body</summary>
          <p className="hint">Each attempt has newly signed URLs.</p>
          <pre className="code">{JSON.stringify(eventOf(job), null, 2)}</pre>
        </details>
      )}
      <Refusal error={redeliver.error} />
    </section>
  );
}

/** Returns the body of the webhook (docs/webhooks.md). */
const eventOf = (job: Job) => ({
  type: `studio.job.${job.status}`,
  timestamp: job.completedAt,
  data: job,
});

/** Requests the webhook of a job. @throws ApiError */
async function webhookOf(jobId: string): Promise<Schemas['Webhook'] | null> {
  const { data, error, response } = await api.GET('/api/v1/studio/jobs/{jobId}/timeline', {
    params: { path: { jobId } },
  });
  if (!data) throw new ApiError(response.status, error);
  if (!data.data.steps.some(({ name }) => name === 'webhook')) return null;
  const params = { path: { jobId } };
  return (await answered(api.GET('/api/v1/studio/jobs/{jobId}/webhook', { params }))).data;
}

function Deliveries({ deliveries }: { deliveries: readonly Schemas['WebhookDelivery'][] }) {
  return (
    <ul className="stack">
      {deliveries.map(({ number, outcome, status, error, durationMs, startedAt, response }) => (
        <li key={number}>
          <State of={outcome} /> attempt {number}: {status ?? error}{' '}
          <span className="dim">
            <Moment at={startedAt} /> {durationMs !== null && durationText(durationMs)}
          </span>
          {response && <pre className="code">{response}</pre>}
        </li>
      ))}
    </ul>
  );
}
