/** Playground page: a form for each Studio endpoint, and the job that it started. */
import { useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link, Redirect } from 'wouter';
import { Empty } from '../../parts/states.tsx';
import { Billing } from '../job/billing.tsx';
import { JobResult } from '../job/job-result.tsx';
import { JobSteps } from '../job/job-steps.tsx';
import { jobQuery } from '../job/job-query.ts';
import { splitType } from '../../parts/names.ts';
import { State } from '../../parts/state.tsx';
import { capabilitiesQuery } from './capabilities-query.ts';
import { studioPath, type Capability } from './capability.ts';
import { CapabilityForm } from './capability-form.tsx';

/** Shows the playground of an endpoint. `name` is the endpoint's path below /studio. */
export default function Playground({ name }: { name: string }) {
  const { data } = useSuspenseQuery(capabilitiesQuery);
  const capability = data.data.find((candidate) => studioPath(candidate) === name);
  if (!capability) return <Redirect to="/playground/image/generate" replace />;
  return (
    <>
      <div className="head">
        <h1>Playground</h1>
      </div>
      <Endpoints capabilities={data.data} current={capability} />
      <EndpointPlayground key={capability.type} capability={capability} />
    </>
  );
}

interface EndpointsProps {
  capabilities: readonly Capability[];
  current: Capability;
}

const mediaKind = ({ type }: Capability): string => splitType(type).kind;

/** Shows links to each kind of media, and to the endpoints of the current kind. */
function Endpoints({ capabilities, current }: EndpointsProps) {
  const kinds = Map.groupBy(capabilities, mediaKind);
  return (
    <nav className="capabilities" aria-label="Endpoints">
      <ul className="tabs">
        {[...kinds].map(([kind, [first]]) => (
          <li key={kind}>
            <Link
              href={`/playground/${first && studioPath(first)}`}
              aria-current={kind === mediaKind(current) ? 'true' : undefined}
            >
              {kind}
            </Link>
          </li>
        ))}
      </ul>
      <ul className="tabs">
        {kinds.get(mediaKind(current))?.map((capability) => (
          <li key={capability.type}>
            <Link
              href={`/playground/${studioPath(capability)}`}
              aria-current={capability === current ? 'page' : undefined}
            >
              {splitType(capability.type).action}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Shows the form of an endpoint and its last job, which is still shown after a reload. */
function EndpointPlayground({ capability }: { capability: Capability }) {
  const storageKey = `job ${capability.type}`;
  const [jobId, setJobId] = useState(() => sessionStorage.getItem(storageKey));
  const jobSection = useRef<HTMLElement>(null);
  const showJob = (next: string): void => {
    sessionStorage.setItem(storageKey, next);
    setJobId(next);
    // On a narrow screen, the job is shown below the form, so the page scrolls to it.
    jobSection.current?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  };
  return (
    <div className="playground">
      <CapabilityForm capability={capability} onStart={showJob} />
      <section ref={jobSection} className="result" aria-label="Job" aria-live="polite">
        {jobId ? (
          <LastJob key={jobId} jobId={jobId} />
        ) : (
          <Empty title="No job yet">The job, its steps and its outputs appear here.</Empty>
        )}
      </section>
    </div>
  );
}

function LastJob({ jobId }: { jobId: string }) {
  const { data: job } = useQuery(jobQuery(jobId));
  if (!job) return null;
  return (
    <div className="stack">
      <div className="card stack">
        <div className="head">
          <State name={job.status} />
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
