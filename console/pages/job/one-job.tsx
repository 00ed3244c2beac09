/** One job: result, steps, request, billing, webhook and actions. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { answered, api, type Job } from '../../gateway/client.ts';
import { useWho } from '../../gateway/session.ts';
import { Loading, Refusal } from '../../parts/states.tsx';
import { typeText } from '../../parts/names.ts';
import { Id, Moment, State } from '../../parts/values.tsx';
import { draftPlace } from '../playground/capability-form.tsx';
import { Billing } from './billing.tsx';
import { jobQuery, timelineQuery } from './job-query.ts';
import { JobResult } from './job-result.tsx';
import { JobSteps } from './job-steps.tsx';
import { JobWebhook } from './job-webhook.tsx';

/** Shows a job. */
export default function OneJob({ jobId }: { jobId: string }) {
  const { data: job, error } = useQuery(jobQuery(jobId));
  if (error) return <Refusal error={error} />;
  if (!job) return <Loading />;
  return (
    <>
      <p>
        <Link href="/jobs">← Jobs</Link>
      </p>
      <div className="head">
        <h1>{typeText(job.type)}</h1>
        <State of={job.status} />
        <Actions job={job} />
      </div>
      {job.prompt !== null && <p className="prompt">{job.prompt}</p>}
      <div className="two job">
        <div className="stack">
          <JobResult job={job} />
          <Request jobId={jobId} />
        </div>
        <div className="stack">
          <section className="card first">
            <h2>Steps</h2>
            <JobSteps job={job} />
          </section>
          <Facts job={job} />
          <JobWebhook job={job} />
        </div>
      </div>
    </>
  );
}

function Actions({ job }: { job: Job }) {
  const client = useQueryClient();
  const who = useWho();
  const [, go] = useLocation();
  const { data } = useQuery(timelineQuery(job.jobId));
  const cancel = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/api/v1/studio/jobs/{jobId}/cancel', { params: { path: { jobId: job.jobId } } }),
      ),
    onSuccess: ({ data: now }) => client.setQueryData(['job', job.jobId], now),
  });
  const again = (): void => {
    sessionStorage.setItem(draftPlace(job.type), JSON.stringify(data?.request ?? {}));
    go(`/playground/${pathOf(job.type)}`);
  };
  const isViewer = who.role === 'viewer';
  return (
    <div className="row">
      <button type="button" onClick={again} disabled={!data}>
        Run again
      </button>
      {!job.done && (
        <button
          type="button"
          className="danger"
          disabled={isViewer || cancel.isPending}
          title={isViewer ? 'A viewer may not cancel jobs.' : undefined}
          onClick={() => cancel.mutate()}
        >
          {cancel.isPending ? 'Canceling…' : 'Cancel'}
        </button>
      )}
      <Refusal error={cancel.error} />
    </div>
  );
}

/**
 * Converts a job type to the path of its endpoint: `imageRemoveBackground` →
 * `image/remove-background`.
 */
function pathOf(type: string): string {
  const [first = '', ...rest] = type.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
  return `${first}/${rest.join('-')}`;
}

function Request({ jobId }: { jobId: string }) {
  const { data } = useQuery(timelineQuery(jobId));
  return (
    <section className="card">
      <h2>Request</h2>
      {data ? <pre className="code">{JSON.stringify(data.request, null, 2)}</pre> : <Loading />}
    </section>
  );
}

function Facts({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  const calls = data?.steps.filter(({ name }) => name === 'submit') ?? [];
  const tags = Object.entries(job.metadata);
  return (
    <section className="card">
      <h2>Details</h2>
      <dl className="facts">
        <dt>Billing</dt>
        <dd>
          <Billing billing={job.billing} />
        </dd>
        <dt>Model</dt>
        <dd>{job.model ?? '–'}</dd>
        <dt>Created</dt>
        <dd>
          <Moment at={job.createdAt} />
        </dd>
        <dt>{job.completedAt ? 'Ended' : 'Deadline'}</dt>
        <dd>
          <Moment at={job.completedAt ?? job.deadlineAt} />
        </dd>
        <dt>Job</dt>
        <dd>
          <Id of={job.jobId} />
        </dd>
        <dt>Request</dt>
        <dd>
          <Id of={job.requestId} />
        </dd>
        <dt>Key</dt>
        <dd>
          <Id of={job.keyId} />
        </dd>
        {calls.map(({ call, provider, providerRequestId }) => (
          <div key={call} style={{ display: 'contents' }}>
            <dt>{provider ?? 'Provider'}</dt>
            <dd>{providerRequestId ? <Id of={providerRequestId} /> : 'no request id'}</dd>
          </div>
        ))}
        {tags.length > 0 && <dt>Tags</dt>}
        {tags.length > 0 && <dd>{tags.map(([name, value]) => `${name}=${value}`).join(', ')}</dd>}
      </dl>
    </section>
  );
}
