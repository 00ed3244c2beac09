/** Page of one job: result, steps, request, billing, webhook and actions. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { unwrap, api, type Job } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { useSessionKey } from '../../gateway/session.ts';
import { Loading, ErrorMessage } from '../../parts/states.tsx';
import { toEndpointPath, formatType } from '../../parts/names.ts';
import { DescriptionList } from '../../parts/description-list.tsx';
import { CopyId } from '../../parts/ids.tsx';
import { State } from '../../parts/state.tsx';
import { DateTime } from '../../parts/times.tsx';
import { storeDraft } from '../playground/draft.ts';
import { Billing } from './billing.tsx';
import { jobQuery, timelineQuery } from './job-query.ts';
import { JobResult } from './job-result.tsx';
import { JobSteps } from './job-steps.tsx';
import { JobWebhook } from './job-webhook.tsx';
import { ProviderRequests } from './provider-requests.tsx';

/** Shows the page of a job. */
export default function OneJob({ jobId }: { jobId: string }) {
  const { data: job, error } = useQuery(jobQuery(jobId));
  return (
    <>
      <p>
        <Link href="/jobs">← Jobs</Link>
      </p>
      <ErrorMessage error={error} />
      {!job && !error && <Loading />}
      {job && <JobSections job={job} />}
    </>
  );
}

function JobSections({ job }: { job: Job }) {
  return (
    <>
      <div className="head">
        <h1>{formatType(job.type)}</h1>
        <State name={job.status} />
        <Actions job={job} />
      </div>
      {job.prompt !== null && <p className="prompt">{job.prompt}</p>}
      <div className="two job">
        <div className="stack">
          <JobResult job={job} />
          <Request jobId={job.jobId} />
        </div>
        <div className="stack">
          <section className="card first">
            <h2>Steps</h2>
            <JobSteps job={job} />
          </section>
          <Details job={job} />
          <JobWebhook job={job} />
        </div>
      </div>
    </>
  );
}

function Actions({ job }: { job: Job }) {
  const client = useQueryClient();
  const sessionKey = useSessionKey();
  const [, navigate] = useLocation();
  const { data } = useQuery(timelineQuery(job.jobId));
  const cancel = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/api/v1/studio/jobs/{jobId}/cancel', { params: { path: { jobId: job.jobId } } }),
      ),
    onSuccess: (canceled) => client.setQueryData(['job', job.jobId], canceled.data),
  });
  const runAgain = (): void => {
    storeDraft(job.type, data?.request ?? {});
    navigate(`/playground/${toEndpointPath(job.type)}`);
  };
  return (
    <div className="row">
      <button type="button" onClick={runAgain} disabled={!data}>
        Run again
      </button>
      {!job.done && (
        <ActionButton
          className="danger"
          disabled={cancel.isPending}
          disabledReason={sessionKey.role === 'viewer' ? 'A viewer may not cancel jobs.' : null}
          onClick={() => cancel.mutate()}
        >
          {cancel.isPending ? 'Canceling…' : 'Cancel'}
        </ActionButton>
      )}
      <ErrorMessage error={cancel.error} />
    </div>
  );
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

function Details({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  const calls = data?.steps.filter(({ name }) => name === 'submit') ?? [];
  const tags = Object.entries(job.metadata).map(([name, value]) => `${name}=${value}`);
  return (
    <section className="card">
      <h2>Details</h2>
      <DescriptionList
        items={{
          Billing: <Billing billing={job.billing} />,
          Model: job.model ?? '–',
          Created: <DateTime time={job.createdAt} />,
          [job.completedAt ? 'Ended' : 'Deadline']: (
            <DateTime time={job.completedAt ?? job.deadlineAt} />
          ),
          Job: <CopyId id={job.jobId} />,
          Request: <CopyId id={job.requestId} />,
          Key: <CopyId id={job.keyId} />,
          ...(calls.length > 0 && { Provider: <ProviderRequests calls={calls} /> }),
          ...(tags.length > 0 && { Tags: tags.join(', ') }),
        }}
      />
    </section>
  );
}
