/** Page of one job: result, steps, request, billing, webhook and actions. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { unwrap, api, newRequestKey, type Job } from '../../gateway/client.ts';
import { formatAmount } from '../../parts/amounts.tsx';
import { ActionButton } from '../../parts/action-button.tsx';
import { useSessionKey } from '../../gateway/session.ts';
import { Loading, ErrorMessage } from '../../parts/states.tsx';
import { toEndpointPath, formatType } from '../../parts/names.ts';
import { DescriptionList } from '../../parts/description-list.tsx';
import { CopyId } from '../../parts/ids.tsx';
import { JobState } from '../../parts/state.tsx';
import { DateTime, LocalTimes } from '../../parts/times.tsx';
import { showToast } from '../../parts/toast.tsx';
import { keysQuery } from '../keys/key-query.ts';
import { CopyAsCode } from '../playground/copy-as.tsx';
import { storeDraft } from '../playground/draft.ts';
import { estimateQuery } from '../playground/estimate-query.ts';
import { AwaitingSteps } from './awaiting-steps.tsx';
import { Billing } from './billing.tsx';
import { ExpectedBar } from './expected-end.tsx';
import { jobQuery, startJob, timelineQuery, toEndpoint, toRepeatable } from './job-query.ts';
import { JobResult } from './job-result.tsx';
import { JobDuration } from './job-row.tsx';
import { JobSteps } from './job-steps.tsx';
import { JobWebhook } from './job-webhook.tsx';
import { PipelineGraph } from './pipeline-graph.tsx';
import { ProviderRequests } from './provider-requests.tsx';
import { ResumePipeline } from './resume-pipeline.tsx';
import { ShareLinks } from './share-links.tsx';

/** Shows the page of a job. */
export default function OneJob({ jobId }: { jobId: string }) {
  const { data: job, error } = useQuery(jobQuery(jobId));
  return (
    <>
      <p className="back">
        <Link href="/jobs">← Jobs</Link>
      </p>
      <ErrorMessage error={error} />
      {!job && !error && <Loading />}
      {job && <JobSections job={job} />}
    </>
  );
}

function JobSections({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  return (
    <>
      <div className="head">
        <h1>{formatType(job.type)}</h1>
        <JobState job={job} />
        <Actions job={job} />
      </div>
      {job.prompt !== null && (
        <p className="prompt" dir="auto">
          {job.prompt}
        </p>
      )}
      <div className="stack">
        {job.steps?.map(
          ({ id, status, error }) =>
            status === 'failed' &&
            error && (
              <p key={id} className="error">
                {id}: {error.message}
              </p>
            ),
        )}
        <AwaitingSteps job={job} />
        <PipelineGraph job={job} />
        <JobResult job={job} />
        {job.result && data && (
          <p className="statement">
            <LocalTimes text={data.why} />
          </p>
        )}
        <section className="card">
          <div className="head">
            <h2>Timeline</h2>
            <p className="dim">
              <JobDuration job={job} /> in total
            </p>
          </div>
          <JobSteps job={job} />
          <ExpectedBar job={job} />
        </section>
        <div className="two">
          <section className="card stack">
            <h2>Request</h2>
            {data ? (
              <>
                {/* oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard */}
                <pre className="code" tabIndex={0}>
                  {JSON.stringify(data.request, null, 2)}
                </pre>
                <CopyAsCode path={toEndpoint(job.type)} body={toRepeatable(data.request)} />
              </>
            ) : (
              <Loading />
            )}
          </section>
          <div className="stack">
            <Details job={job} />
            <ShareLinks job={job} />
            <JobWebhook job={job} />
          </div>
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
    onSuccess: (canceled) => {
      client.setQueryData(['job', job.jobId], canceled.data);
      showToast(canceled.data.done ? 'Job canceled' : 'Cancellation requested');
    },
  });
  // The same request would be refused again.
  const isRefused = job.status === 'failed' && job.error?.retryable === false;
  const openForm = (): void => {
    storeDraft(job.type, toRepeatable(data?.request ?? {}), job.jobId);
    navigate(`/playground/${toEndpointPath(job.type)}`);
  };
  return (
    <div className="row">
      <ResumePipeline job={job} />
      <button
        type="button"
        className={isRefused ? 'primary' : undefined}
        onClick={openForm}
        disabled={!data}
      >
        {!isRefused
          ? 'Open in the playground'
          : job.prompt === null
            ? 'Edit the request'
            : 'Edit the prompt'}
      </button>
      {job.done && data && !isRefused && (
        <RunAgain type={job.type} body={toRepeatable(data.request)} />
      )}
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

/** Shows a button that starts the same request again, with its price. */
function RunAgain({ type, body }: { type: string; body: Record<string, unknown> }) {
  const [, navigate] = useLocation();
  const [idempotencyKey] = useState(newRequestKey);
  const { data: estimate } = useQuery(estimateQuery(toEndpoint(type), JSON.stringify(body)));
  const run = useMutation({
    mutationFn: () => startJob(toEndpoint(type), body, idempotencyKey),
    onSuccess: (jobId) => navigate(`/jobs/${jobId}`),
  });
  return (
    <>
      <button type="button" disabled={run.isPending} onClick={() => run.mutate()}>
        Run again{estimate && ` · ${formatAmount(estimate.data.credits)} credits`}
      </button>
      <ErrorMessage error={run.error} />
    </>
  );
}

function Details({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  const mayReadKeys = useSessionKey().explainDenial('keys:read') === null;
  const { data: keyList } = useQuery({ ...keysQuery, enabled: mayReadKeys });
  const key = keyList?.keys.find(({ keyId }) => keyId === job.keyId);
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
          Key: key ? <span title={job.keyId}>{key.name}</span> : <CopyId id={job.keyId} />,
          ...(calls.length > 0 && { Provider: <ProviderRequests calls={calls} /> }),
          ...(tags.length > 0 && {
            Tags: tags.map((tag) => (
              <Link key={tag} className="chip" href={`/jobs?tag=${encodeURIComponent(tag)}`}>
                {tag}
              </Link>
            )),
          }),
        }}
      />
    </section>
  );
}
