/** The steps of a pipeline as a graph: each step's state, result, price and time. */
import { Fragment } from 'react';
import { ArrowRight } from 'lucide-react';
import type { Job } from '../../gateway/client.ts';
import { Credits } from '../../parts/amounts.tsx';
import { State } from '../../parts/state.tsx';
import { formatDuration, useNow } from '../../parts/times.tsx';
import { findTranscript, listMedia } from './job-media.ts';
import { MediaPlayer } from './job-result.tsx';
import { ResultActions } from './result-actions.tsx';

type Step = NonNullable<Job['steps']>[number];

/** Shows the steps of a pipeline in columns, after the steps whose results they take. */
export function PipelineGraph({ job: { jobId, steps, result, mediaDeletedAt } }: { job: Job }) {
  if (!steps) return null;
  const results = readResults(result);
  const depths = new Map<string, number>();
  for (const { id, after } of steps)
    depths.set(id, Math.max(0, ...after.map((source) => (depths.get(source) ?? 0) + 1)));
  const columns = [...Map.groupBy(steps, ({ id }) => depths.get(id) ?? 0)];
  return (
    // oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard
    <div className="graph" role="region" aria-label="Pipeline" tabIndex={0}>
      {columns.map(([depth, inColumn]) => (
        <Fragment key={depth}>
          {depth > 0 && <ArrowRight aria-hidden />}
          <ul className="stack">
            {inColumn.map((step) => (
              <li key={step.id} className="card" data-node={step.id} data-state={step.status}>
                <StepNode
                  jobId={jobId}
                  step={{
                    ...step,
                    data: mediaDeletedAt ? null : (step.data ?? results.get(step.id) ?? null),
                  }}
                />
              </li>
            ))}
          </ul>
        </Fragment>
      ))}
    </div>
  );
}

/** Returns the results by step, which the result of an ended job contains. */
function readResults(result: Job['result']): Map<string, Step['data']> {
  const steps = result?.['steps'];
  return new Map(
    (Array.isArray(steps) ? steps : []).map(({ id, data }: Pick<Step, 'id' | 'data'>) => [
      id,
      data,
    ]),
  );
}

function StepNode({ jobId, step }: { jobId: string; step: Step }) {
  const { id, use, model, after, status, maxCredits, credits, error, data } = step;
  const media = data ? listMedia({ result: data }) : [];
  const text = data && findTranscript(data);
  return (
    <>
      <p className="row">
        <strong>{id}</strong>
        <State name={status} />
      </p>
      <p className="hint">
        {use} {model && `· ${model}`} {after.length > 0 && `· after ${after.join(', ')}`}
      </p>
      {media.map((file) => (
        <Fragment key={file.url}>
          <MediaPlayer media={file} alt={`Result of ${id}`} />
          <ResultActions media={file} jobId={jobId} isCompact />
        </Fragment>
      ))}
      {text && <p className="hint">{text}</p>}
      {error && <p className={status === 'failed' ? 'wrong' : 'hint'}>{error.message}</p>}
      <p className="hint">
        {credits > 0 ? (
          <Credits amount={credits} />
        ) : (
          <>
            at most <Credits amount={maxCredits} />
          </>
        )}{' '}
        credits <StepTime step={step} />
      </p>
    </>
  );
}

function StepTime({ step: { startedAt, completedAt } }: { step: Step }) {
  const nowMs = useNow(completedAt === null ? 1000 : 3_600_000);
  if (startedAt === null) return null;
  const endMs = completedAt === null ? nowMs : Date.parse(completedAt);
  return <>· {formatDuration(Math.max(0, endMs - Date.parse(startedAt)))}</>;
}
