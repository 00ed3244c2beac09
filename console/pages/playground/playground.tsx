/** Any Studio endpoint: a form from its schema, its price before the click, and the job as it goes. */
import { queryOptions, useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, Redirect } from 'wouter';
import { answered, api } from '../../gateway/client.ts';
import { Empty } from '../../parts/states.tsx';
import { JobResult } from '../job/job-result.tsx';
import { JobSteps } from '../job/job-steps.tsx';
import { jobQuery } from '../job/job-query.ts';
import { State } from '../../parts/values.tsx';
import { nameOf, type Capability } from './capability.ts';
import { CapabilityForm } from './capability-form.tsx';

const capabilitiesQuery = queryOptions({
  queryKey: ['studio-models'],
  queryFn: () => answered(api.GET('/api/v1/studio/models')),
  staleTime: Infinity,
});

/** `name`: the endpoint's path below /studio. */
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

/** By what they make: `image/remove-background` is `remove background` of `image`. */
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

/** The last job of each endpoint is found again after a reload. */
function Bench({ capability }: { capability: Capability }) {
  const place = `job ${capability.type}`;
  const [jobId, setJobId] = useState(() => sessionStorage.getItem(place));
  const follow = (next: string): void => {
    sessionStorage.setItem(place, next);
    setJobId(next);
  };
  return (
    <div className="playground">
      <CapabilityForm capability={capability} follow={follow} />
      <section aria-label="The job" aria-live="polite">
        {jobId ? (
          <Made key={jobId} jobId={jobId} />
        ) : (
          <Empty title="Nothing made yet">The job, its steps and its outputs appear here.</Empty>
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
          <Link href={`/jobs/${jobId}`}>Everything about this job</Link>
        </div>
        <JobSteps job={job} />
      </div>
      <JobResult job={job} />
    </div>
  );
}
