/** Webhook of a job, with its delivery attempts. */
import { useQuery } from '@tanstack/react-query';
import { unwrap, api, type Job, type Schemas } from '../../gateway/client.ts';
import { State } from '../../parts/state.tsx';
import { formatDuration, DateTime } from '../../parts/times.tsx';
import { timelineQuery } from './job-query.ts';
import { RedeliverButton } from './redeliver-button.tsx';

/** Shows the webhook of a job, or nothing if it has none. */
export function JobWebhook({ job }: { job: Job }) {
  const { jobId } = job;
  const { data: timeline } = useQuery(timelineQuery(jobId));
  const { data: answer } = useQuery({
    queryKey: ['timeline', jobId, 'webhook'],
    queryFn: () =>
      unwrap(api.GET('/api/v1/studio/jobs/{jobId}/webhook', { params: { path: { jobId } } })),
    enabled: timeline?.steps.some(({ name }) => name === 'webhook') ?? false,
  });
  if (!answer) return null;
  const { data } = answer;
  return (
    <section className="card stack">
      <div className="head">
        <h2>Webhook</h2>
        <State name={data.state} />
        <RedeliverButton jobIds={[jobId]} isRunning={data.state === 'waiting'} />
      </div>
      <code>{data.url}</code>
      <Deliveries deliveries={data.deliveries} />
      {job.done && (
        <details>
          <summary>Request body</summary>
          <p className="hint">Each delivery attempt sends newly signed URLs in the body.</p>
          <pre className="code">{JSON.stringify(buildEvent(job), null, 2)}</pre>
        </details>
      )}
    </section>
  );
}

/** Builds the request body of a job's webhook, as described in docs/webhooks.md. */
const buildEvent = (job: Job) => ({
  type: `studio.job.${job.status}`,
  timestamp: job.completedAt,
  data: job,
});

function Deliveries({ deliveries }: { deliveries: readonly Schemas['WebhookDelivery'][] }) {
  return (
    <ul className="stack">
      {deliveries.map(({ number, outcome, status, error, durationMs, startedAt, response }) => (
        <li key={number}>
          <State name={outcome} /> attempt {number}: {status ?? error}{' '}
          <span className="dim">
            <DateTime time={startedAt} /> {durationMs !== null && formatDuration(durationMs)}
          </span>
          {response && <pre className="code">{response}</pre>}
        </li>
      ))}
    </ul>
  );
}
