/** The playground: a form for each Studio endpoint with its price, and the job that it starts. */
import { useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link, Redirect } from 'wouter';
import { Empty } from '../../parts/states.tsx';
import { Billing } from '../job/billing.tsx';
import { JobResult } from '../job/job-result.tsx';
import { JobSteps } from '../job/job-steps.tsx';
import { jobQuery } from '../job/job-query.ts';
import { State } from '../../parts/values.tsx';
import { capabilitiesQuery } from './capabilities-query.ts';
import { nameOf, type Capability } from './capability.ts';
import { CapabilityForm } from './capability-form.tsx';

/** Shows the playground of an endpoint; `name` is the path of the endpoint below /studio. */
export default function Playground({ name }: { name: string }) {
  const { data } = useSuspenseQuery(capabilitiesQuery);
  const capability = data.data.find((each) => nameOf(each) === name);
  if (!capability) return <Redirect to="/playground/image/generate" replace />;
  return (
    <>
      <div className="head">
        <h1>Playground</h1>
      </div>
      <Endpoints of={data.data} chosen={capability} />
      <Bench key={capability.type} capability={capability} />
    </>
  );
}

/** Lists the endpoints by medium: `image/remove-background` is `remove background` of `image`. */
function Endpoints({ of, chosen }: { of: readonly Capability[]; chosen: Capability }) {
  const groups = Map.groupBy(of, (each) => nameOf(each).split('/')[0] ?? '');
  return (
    <nav className="capabilities" aria-label="Endpoints">
      <ul>
        {[...groups].map(([kind, capabilities]) => (
          <li key={kind}>
            <span className="dim">{kind}</span>
            {capabilities.map((each) => (
              <Link
                key={each.type}
                href={`/playground/${nameOf(each)}`}
                aria-current={each === chosen ? 'page' : undefined}
              >
                {nameOf(each).split('/').slice(1).join(' ').replaceAll('-', ' ')}
              </Link>
            ))}
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Shows the form and the last job of an endpoint, also after a reload. */
function Bench({ capability }: { capability: Capability }) {
  const place = `job ${capability.type}`;
  const [jobId, setJobId] = useState(() => sessionStorage.getItem(place));
  const column = useRef<HTMLElement>(null);
  const follow = (next: string): void => {
    sessionStorage.setItem(place, next);
    setJobId(next);
    // On a narrow screen the column is below the form.
    column.current?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  };
  return (
    <div className="playground">
      <CapabilityForm capability={capability} follow={follow} />
      <section ref={column} className="result" aria-label="Job" aria-live="polite">
        {jobId ? (
          <Made key={jobId} jobId={jobId} />
        ) : (
          <Empty title="No job yet">The job, its steps and its outputs appear here.</Empty>
        )}
      </section>
    </div>
  );
}

function Made({ jobId }: { jobId: string }) {
  const { data: job } = useQuery(jobQuery(jobId));
  if (!job) return null;
  return (
    <div className="stack">
      <div className="card stack">
        <div className="head">
          <State of={job.status} />
          <span className="dim">
            <Billing billing={job.billing} />
          </span>
          <Link href={`/jobs/${jobId}`}>View job</Link>
        </div>
        <JobSteps job={job} />
      </div>
      <JobResult job={job} />
    </div>
  );
}
