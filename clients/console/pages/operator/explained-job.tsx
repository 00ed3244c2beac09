/** Operators' page of a job: the reason for its state, the next steps, and its timeline. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Loading, ErrorMessage } from '../../parts/states.tsx';
import { formatType } from '../../parts/names.ts';
import { DescriptionList } from '../../parts/description-list.tsx';
import { CopyId } from '../../parts/ids.tsx';
import { State } from '../../parts/state.tsx';
import { DateTime, LocalTimes } from '../../parts/times.tsx';
import { Billing } from '../job/billing.tsx';
import { ProviderRequests } from '../job/provider-requests.tsx';
import { JobActions, type JobAction } from './job-actions.tsx';
import { OrganizationLink } from './links.tsx';
import { listEvents } from './job-events.ts';

interface ExplanationProps {
  explanation: OperatorSchemas['JobExplanation'];
}
const refreshMs = 3000;

/** Shows the operators' page of a job. */
export function ExplainedJob({ jobId }: { jobId: string }) {
  const { data, error } = useQuery({
    queryKey: ['operator', 'job', jobId],
    queryFn: async () => {
      const params = { path: { jobId } };
      return (await unwrap(operatorApi.GET('/api/admin/v1/jobs/{jobId}', { params }))).data;
    },
    refetchInterval: ({ state }) => (state.data?.done ? false : refreshMs),
  });
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <Loading />;
  return (
    <>
      <div className="head">
        <h2>{formatType(data.type)}</h2>
        <State name={data.status} />
        <ActionsOnJob explanation={data} />
      </div>
      <div className="stack">
        <NextSteps explanation={data} />
        <div className="two">
          <Timeline explanation={data} />
          <div className="stack">
            <Details explanation={data} />
            <section className="card">
              <h2>Request</h2>
              {/* oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard */}
              <pre className="code" tabIndex={0}>
                {JSON.stringify(data.request, null, 2)}
              </pre>
            </section>
          </div>
        </div>
      </div>
    </>
  );
}

const remedies: Record<string, JobAction> = {
  reverifyJob: 'reverify',
  resettleJob: 'resettle',
  cancelJob: 'cancel',
  redeliverJobWebhook: 'redeliver',
};

function ActionsOnJob({ explanation: { jobId, done, billing, webhook, next } }: ExplanationProps) {
  // Rounds the difference, because floating-point subtraction may add decimals.
  const refundable = Number((billing.charged - billing.refunded).toFixed(6));
  const [remedy] = next.flatMap(({ operation }) => remedies[operation ?? ''] ?? []);
  return (
    <JobActions
      jobId={jobId}
      isDone={done}
      refundable={refundable}
      hasWebhook={webhook !== null}
      recommended={remedy ?? (refundable > 0 ? 'refund' : 'reverify')}
    />
  );
}

function NextSteps({ explanation: { why, callerWhy, next } }: ExplanationProps) {
  return (
    <section className="card stack">
      <p className="why">
        <LocalTimes text={why} />
      </p>
      <p>
        <span className="dim">The caller reads:</span> <LocalTimes text={callerWhy} />
      </p>
      {next.length > 0 && (
        <>
          <h3>Next steps</h3>
          <ul className="stack">
            {next.map(({ message, operation }) => (
              <li key={message}>
                <LocalTimes text={message} />{' '}
                {operation === 'resumeProvider' && <Link href="/operator">Providers</Link>}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Timeline({ explanation }: ExplanationProps) {
  return (
    <section className="card">
      <h2>Timeline</h2>
      <ol className="events" aria-label="Timeline">
        {listEvents(explanation).map(({ id, time, kind, text, detail }) => (
          <li key={id} data-kind={kind}>
            <span className="dim">
              <DateTime time={time} />
            </span>
            <span className="kind">{kind}</span>
            <span>
              {text} {detail && <span className="dim">{detail}</span>}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Details({ explanation }: ExplanationProps) {
  const { organization, key, billing, workflow, calls, jobId, requestId, deadlineAt } = explanation;
  return (
    <section className="card">
      <h2>Details</h2>
      <DescriptionList
        items={{
          Organization: (
            <>
              <OrganizationLink id={organization.organizationId} name={organization.name} />{' '}
              <State name={organization.status} />
            </>
          ),
          Key: (
            <>
              {key.name} <code className="dim">{key.keyPrefix}…</code>, owned by {key.userName}
              {key.revokedAt && ', revoked'}
            </>
          ),
          Billing: <Billing billing={billing} />,
          Deadline: <DateTime time={deadlineAt} />,
          Workflow: (
            <>
              {workflow.status ?? workflow.state}{' '}
              {workflow.url && (
                <a href={workflow.url} target="_blank" rel="noreferrer">
                  open in the Temporal UI
                </a>
              )}
            </>
          ),
          Provider: <ProviderRequests calls={calls} />,
          Job: <CopyId id={jobId} />,
          Request: <CopyId id={requestId} />,
        }}
      />
    </section>
  );
}
