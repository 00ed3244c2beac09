/** Playground page: a form for each Studio endpoint, and the job that it started. */
import { useQuery, useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link, Redirect } from 'wouter';
import { useHistoryState } from 'wouter/use-browser-location';
import { formatAmount } from '../../parts/amounts.tsx';
import { Empty, ErrorMessage, Loading } from '../../parts/states.tsx';
import { Billing } from '../job/billing.tsx';
import { JobResult } from '../job/job-result.tsx';
import { PipelineGraph } from '../job/pipeline-graph.tsx';
import { JobSteps } from '../job/job-steps.tsx';
import { jobQuery, timelineQuery } from '../job/job-query.ts';
import { JobDuration } from '../job/job-row.tsx';
import { splitType } from '../../parts/names.ts';
import { State } from '../../parts/state.tsx';
import { capabilitiesQuery } from './capabilities-query.ts';
import {
  buildBody,
  buildOpening,
  findExampleText,
  findModel,
  studioPath,
  type Capability,
  type FormValues,
} from './capability.ts';
import { CapabilityForm, useEstimate } from './capability-form.tsx';
import { readDraft, storeDraft, useShownJob } from './draft.ts';
import { useShortfall } from './shortfall.tsx';
import { SavedRecipes } from './saved-recipes.tsx';
import { RecentResults, useRecentJobs } from './recent-results.tsx';

/** Shows the playground of an endpoint. `name` is the endpoint's path below /studio. */
export default function Playground({ name }: { name: string }) {
  const { data } = useSuspenseQuery(capabilitiesQuery);
  const opening = useHistoryState<string | null>();
  const capability = data.data.find((candidate) => studioPath(candidate) === name);
  if (!capability) return <Redirect to="/playground/image/generate" replace />;
  return (
    <>
      <div className="head">
        <h1>Playground</h1>
      </div>
      <Endpoints capabilities={data.data} current={capability} />
      <EndpointPlayground key={`${capability.type} ${opening}`} capability={capability} />
    </>
  );
}

interface EndpointsProps {
  capabilities: readonly Capability[];
  /** Capability of the shown form, or the name of another page. */
  current: Capability | 'pipelines' | 'compare';
}

const mediaKind = ({ type }: Capability): string => splitType(type).kind;

/** Shows links to each kind of media, and to the endpoints of the current kind. */
export function Endpoints({ capabilities, current }: EndpointsProps) {
  const kinds = Map.groupBy(capabilities, mediaKind);
  const currentKind = typeof current === 'string' ? current : mediaKind(current);
  return (
    <nav className="capabilities" aria-label="Endpoints">
      <ul className="tabs">
        {[...kinds].map(([kind, [first]]) => (
          <li key={kind}>
            <Link
              href={`/playground/${first && studioPath(first)}`}
              aria-current={kind === currentKind ? 'true' : undefined}
            >
              {kind}
            </Link>
          </li>
        ))}
        {(['pipelines', 'compare'] as const).map((name) => (
          <li key={name}>
            <Link href={`/playground/${name}`} aria-current={name === current ? 'page' : undefined}>
              {name}
            </Link>
          </li>
        ))}
      </ul>
      <ul className="tabs">
        {kinds.get(currentKind)?.map((capability) => (
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

/** Shows the form of an endpoint, its last job, and the results before it. */
function EndpointPlayground({ capability }: { capability: Capability }) {
  const { type } = capability;
  const [jobId, setJobId] = useShownJob(type);
  const jobSection = useRef<HTMLElement>(null);
  const jobs = useRecentJobs(type);
  // The form opens with the latest result. What other programs and bulk jobs make later does not replace it.
  const [openingId, setOpeningId] = useState<string | null>();
  if (jobs && openingId === undefined)
    setOpeningId(jobs.find(({ status }) => status === 'completed')?.jobId ?? null);
  const shownId = jobId ?? openingId ?? undefined;
  const { values, setValues, formKey, fill, load, freeze } = useFormValues(capability, shownId);
  const showJob = (next: string): void => {
    setJobId(next);
    // On a narrow screen, the job is shown below the form, so the page scrolls to it.
    jobSection.current?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  };
  const choose = (chosenId: string): void => {
    void load(chosenId);
    showJob(chosenId);
  };
  return (
    <div className="playground">
      <div className="stack">
        <CapabilityForm
          key={formKey}
          {...{ capability, values, setValues }}
          onFocus={freeze}
          onStart={showJob}
        />
        <SavedRecipes
          use={studioPath(capability)}
          body={buildBody(capability, values)}
          load={fill}
        />
      </div>
      <section className="stack result">
        <section ref={jobSection} aria-label="Job" aria-live="polite">
          {shownId ? (
            <ShownJob key={shownId} jobId={shownId} />
          ) : (
            jobs && <Example capability={capability} values={values} />
          )}
        </section>
        {jobs && jobs.length > 0 && (
          <RecentResults jobs={jobs} currentId={shownId} choose={choose} />
        )}
      </section>
    </div>
  );
}

/**
 * Returns the values of a form: the draft, otherwise the example of the endpoint, with the text of
 * the job `shownId`. Options of an earlier request, such as the number of images, are not taken over.
 */
function useFormValues(capability: Capability, shownId: string | undefined) {
  const { type } = capability;
  const client = useQueryClient();
  const [draft, setDraft] = useState(() => readDraft(type));
  // The form is drawn anew when a request is loaded, because some fields keep what was typed.
  const [formKey, setFormKey] = useState(0);
  const { data } = useQuery({
    ...timelineQuery(shownId ?? ''),
    enabled: shownId !== undefined && draft === null,
  });
  const setValues = (next: FormValues): void => {
    storeDraft(type, next);
    setDraft(next);
  };
  const fill = (next: FormValues): void => {
    setValues(next);
    setFormKey((last) => last + 1);
  };
  const load = async (jobId: string): Promise<void> =>
    fill((await client.ensureQueryData(timelineQuery(jobId))).request);
  const values = draft ?? buildOpening(capability, data?.request);
  // A request that loads late must not replace a text that the user is about to change.
  const freeze = (): void => setDraft(values);
  return { values, setValues, formKey, fill, load, freeze };
}

/** URLs of pictures that the provider sandbox made of the examples of endpoints. */
const pictures = import.meta.glob<string>('./examples/*.webp', {
  query: '?url',
  import: 'default',
  eager: true,
});

/** Shows the example of an endpoint with its result, and a button that runs the form. */
function Example({ capability, values }: { capability: Capability; values: FormValues }) {
  const model = findModel(capability, values);
  const credits = useEstimate(capability, buildBody(capability, values));
  const shortfall = useShortfall(credits);
  const picture = pictures[`./examples/${capability.type}.webp`];
  const text = findExampleText(capability);
  const usual = model?.typicalSeconds && `The model usually takes ${model.typicalSeconds} s.`;
  return (
    <div className="stack">
      {picture ? (
        <div className="media">
          <figure>
            <img src={picture} alt={`Example: ${text}`} />
            <figcaption className="dim">
              Example: “{text}”, made by the provider sandbox. {usual}
            </figcaption>
          </figure>
        </div>
      ) : (
        <Empty title="Your first result appears here">{usual}</Empty>
      )}
      {credits !== undefined && shortfall === null && (
        <p className="row">
          <button type="submit" form="endpoint">
            Run this: {formatAmount(credits)} credits
          </button>
        </p>
      )}
    </div>
  );
}

/** Shows the result of a job, with its steps folded below. */
export function ShownJob({ jobId }: { jobId: string }) {
  const { data: job, error } = useQuery(jobQuery(jobId));
  if (!job) return error ? <ErrorMessage error={error} /> : <Loading />;
  return (
    <div className="stack">
      <PipelineGraph job={job} />
      <JobResult job={job} />
      <details className="fold">
        <summary>
          <State name={job.status} />
          <JobDuration job={job} /> · {job.provider} · <Billing billing={job.billing} />
        </summary>
        <JobSteps job={job} />
      </details>
      <Link href={`/jobs/${jobId}`}>View job</Link>
    </div>
  );
}
