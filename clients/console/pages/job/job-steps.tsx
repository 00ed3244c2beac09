/** The steps of a job as bars on a time axis, from reserving credits to charging them. */
import { useQuery } from '@tanstack/react-query';
import type { Job, Schemas } from '../../gateway/client.ts';
import { formatDuration, useNow } from '../../parts/times.tsx';
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

/** Part of the axis that a step covers, in Unix ms. */
interface Span {
  startMs: number;
  endMs: number;
}

/** Shows the steps of a job with their times. */
export function JobSteps({ job }: { job: Job }) {
  const { data } = useQuery(timelineQuery(job.jobId));
  const steps = data?.steps ?? [];
  const isRunning = steps.some(({ state }) => state === 'running');
  const nowMs = useNow(isRunning ? 500 : 60_000);
  const startMs = Date.parse(job.createdAt);
  // A webhook that is retried for hours is not part of the work.
  const work = steps.filter(({ name }) => name !== 'webhook');
  const endMs = Math.max(
    startMs + 1,
    ...work.map((step) => findSpan(step, nowMs)?.endMs ?? startMs),
  );
  const lastStep = steps.findLast(({ name }) => expectedSteps.includes(name));
  const upcomingSteps =
    job.done || !lastStep ? [] : expectedSteps.slice(expectedSteps.indexOf(lastStep.name) + 1);
  return (
    <div className="waterfall">
      <p className="axis dim">
        <span>0</span>
        <span>{formatDuration((endMs - startMs) / 2)}</span>
        <span>{formatDuration(endMs - startMs)}</span>
      </p>
      <ol aria-label="Steps">
        {steps.map((step) => (
          <StepRow
            key={`${step.name} ${step.call} ${step.provider}`}
            step={step}
            span={findSpan(step, nowMs)}
            axis={{ startMs, endMs }}
            isUncertain={data?.outcomeUnknown ?? false}
          />
        ))}
        {upcomingSteps.map((name) => (
          <li key={name}>
            <span className="dim">{titles[name]}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function findSpan({ startedAt, endedAt }: Step, nowMs: number): Span | null {
  if (startedAt === null) return null;
  const startMs = Date.parse(startedAt);
  return { startMs, endMs: endedAt === null ? Math.max(nowMs, startMs) : Date.parse(endedAt) };
}

interface StepRowProps {
  step: Step;
  span: Span | null;
  axis: Span;
  isUncertain: boolean;
}

function StepRow({ step, span, axis, isUncertain }: StepRowProps) {
  const { name, state, step: pipelineStep, call, provider, attempts } = step;
  const details = [
    call !== null && call > 0 ? `call ${call + 1}` : null,
    provider,
    attempts !== null && attempts > 1 ? `${attempts} attempts` : null,
    state === 'failed' ? 'failed' : null,
    state === 'running' && isUncertain ? 'not confirmed' : null,
  ].filter(Boolean);
  const lengthMs = axis.endMs - axis.startMs;
  const toPercent = (ms: number): string => `${(100 * Math.min(ms, lengthMs)) / lengthMs}%`;
  return (
    <li className={state} data-step={name} data-state={state}>
      <span>
        {pipelineStep && `${pipelineStep}: `}
        {titles[name]} <span className="dim">{details.join(' · ')}</span>
      </span>
      <span className="track" aria-hidden="true">
        {span && (
          <span
            className="bar"
            style={{
              insetInlineStart: toPercent(span.startMs - axis.startMs),
              width: toPercent(
                Math.max(Math.min(span.endMs, axis.endMs) - Math.min(span.startMs, axis.endMs), 0),
              ),
            }}
          />
        )}
      </span>
      <span className="took">
        {!span && state}
        {span && span.endMs > span.startMs && formatDuration(span.endMs - span.startMs)}
      </span>
    </li>
  );
}
