/** The steps of a job, from reserving credits to charging them. */
import { useQuery } from '@tanstack/react-query';
import type { Job, Schemas } from '../../gateway/client.ts';
import { formatDuration, useNow } from '../../parts/times.tsx';
import { ExpectedBar } from './expected-end.tsx';
import { timelineQuery } from './job-query.ts';

type Step = Schemas['JobStep'];

const titles: Record<Step['name'], string> = {
  reserve: 'Reserve credits',
  pause: 'Wait until the provider is resumed',
  submit: 'Submit to the provider',
  wait: 'Wait for the provider',
  store: 'Store the result',
  charge: 'Charge credits',
  release: 'Release credits',
  webhook: 'Send webhook',
};

/** Steps of a successful job, in order. A running job also shows those still to come. */
const expectedSteps: readonly Step['name'][] = ['reserve', 'submit', 'wait', 'store', 'charge'];

/** Shows the steps of a job. */
export function JobSteps({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  const steps = data?.steps ?? [];
  const lastStep = steps.findLast(({ name }) => expectedSteps.includes(name));
  const upcomingSteps =
    job.done || !lastStep ? [] : expectedSteps.slice(expectedSteps.indexOf(lastStep.name) + 1);
  return (
    <>
      <ol className="steps" aria-label="Steps">
        {steps.map((step) => (
          <StepRow key={`${step.name} ${step.call} ${step.provider}`} step={step} />
        ))}
        {upcomingSteps.map((name) => (
          <li key={name}>
            <span className="dot" aria-hidden="true" />
            <span className="dim">{titles[name]}</span>
          </li>
        ))}
      </ol>
      <ExpectedBar job={job} />
    </>
  );
}

function StepRow({ step }: { step: Step }) {
  const { name, state, call, provider, attempts } = step;
  const details = [
    call !== null && call > 0 ? `call ${call + 1}` : null,
    provider,
    attempts !== null && attempts > 1 ? `${attempts} attempts` : null,
    state === 'failed' ? 'failed' : null,
  ].filter(Boolean);
  return (
    <li className={state} data-step={name} data-state={state}>
      <span className="dot" aria-hidden="true" />
      <span>
        {titles[name]} <span className="dim">{details.join(' · ')}</span>
      </span>
      <StepDuration step={step} />
    </li>
  );
}

/** Shows the duration of a step, unless the step is a single database statement. */
function StepDuration({ step: { startedAt, endedAt, state } }: { step: Step }) {
  const now = useNow(state === 'running' ? 500 : 60_000);
  if (startedAt === null) return <span className="took">{state}</span>;
  if (startedAt === endedAt) return null;
  const endMs = endedAt === null ? now : Date.parse(endedAt);
  return <span className="took">{formatDuration(endMs - Date.parse(startedAt))}</span>;
}
