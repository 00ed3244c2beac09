/** The webhook of a job and the attempts to deliver it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { unwrap, api, type Job, type Schemas } from '../../gateway/client.ts';
import { ErrorMessage } from '../../parts/states.tsx';
import { State } from '../../parts/state.tsx';
import { durationText, Moment } from '../../parts/times.tsx';

/** Shows the webhook; nothing if the job has none. */
export function JobWebhook({ job }: { job: Job }) {
  const { jobId } = job;
  const client = useQueryClient();
  const params = { path: { jobId } };
  const queryKey = ['timeline', jobId, 'webhook'];
  const { data } = useQuery({ queryKey, queryFn: () => readWebhook(jobId) });
  const redeliver = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/studio/jobs/{jobId}/webhook/redeliver', { params })),
    onSuccess: () => client.invalidateQueries({ queryKey }),
  });
  if (!data) return null;
  return (
    <section className="card stack">
      <div className="head">
        <h2>Webhook</h2>
        <State name={data.state} />
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
          <pre className="code">{JSON.stringify(makeEvent(job), null, 2)}</pre>
        </details>
      )}
      <ErrorMessage error={redeliver.error} />
    </section>
  );
}

/** Returns the body of the webhook (docs/webhooks.md). */
const makeEvent = (job: Job) => ({
  type: `studio.job.${job.status}`,
  timestamp: job.completedAt,
  data: job,
});

/** Requests the webhook of a job. @throws ApiError */
async function readWebhook(jobId: string): Promise<Schemas['Webhook'] | null> {
  const params = { path: { jobId } };
  const { data } = await unwrap(api.GET('/api/v1/studio/jobs/{jobId}/timeline', { params }));
  if (!data.steps.some(({ name }) => name === 'webhook')) return null;
  return (await unwrap(api.GET('/api/v1/studio/jobs/{jobId}/webhook', { params }))).data;
}

function Deliveries({ deliveries }: { deliveries: readonly Schemas['WebhookDelivery'][] }) {
  return (
    <ul className="stack">
      {deliveries.map(({ number, outcome, status, error, durationMs, startedAt, response }) => (
        <li key={number}>
          <State name={outcome} /> attempt {number}: {status ?? error}{' '}
          <span className="dim">
            <Moment at={startedAt} /> {durationMs !== null && durationText(durationMs)}
          </span>
          {response && <pre className="code">{response}</pre>}
        </li>
      ))}
    </ul>
  );
}
