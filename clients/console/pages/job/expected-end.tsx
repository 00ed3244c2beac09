/** Predicts when a running job will end, from the typical duration of its model. */
import { useQuery } from '@tanstack/react-query';
import type { Job } from '../../gateway/client.ts';
import { formatDuration, useNow } from '../../parts/times.tsx';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';

/** Minimum typical duration of a model for which a forecast is shown. */
const typicalMsMin = 5000;
/** Multiple of the typical duration after which a job is overdue. */
const overdueFactor = 1.5;

interface Forecast {
  typicalMs: number;
  elapsedMs: number;
  isOverdue: boolean;
}

/** Returns the forecast of a job, or null if it is not running or its duration is unknown. */
function useForecast({ type, model, startedAt, done }: Job): Forecast | null {
  const { data } = useQuery({ ...capabilitiesQuery, enabled: !done });
  const now = useNow(done ? 60_000 : 1000);
  if (done || startedAt === null) return null;
  const models = data?.data.find((capability) => capability.type === type)?.models ?? [];
  const typicalMs = (models.find(({ id }) => id === model)?.typicalSeconds ?? 0) * 1000;
  if (typicalMs < typicalMsMin) return null;
  const elapsedMs = Math.max(now - Date.parse(startedAt), 0);
  return { typicalMs, elapsedMs, isOverdue: elapsedMs > typicalMs * overdueFactor };
}

/** Shows a job's position in the provider's queue, its remaining time, or that it is overdue. */
export function ExpectedEnd({ job }: { job: Job }) {
  const forecast = useForecast(job);
  const position = job.progress?.queuePosition ?? null;
  if (position !== null)
    return <span className="dim">position {position} in the provider’s queue</span>;
  if (!forecast) return null;
  const { typicalMs, elapsedMs, isOverdue } = forecast;
  if (isOverdue) return <span className="dim">longer than usual</span>;
  const remainingMs = typicalMs - elapsedMs;
  return (
    <span className="dim">
      {remainingMs > 0 ? `about ${formatWholeSeconds(remainingMs)} left` : 'should end any moment'}
    </span>
  );
}

/** Shows a progress bar from the start of a job to its expected end. */
export function ExpectedBar({ job }: { job: Job }) {
  const forecast = useForecast(job);
  if (!forecast) return null;
  const { typicalMs, elapsedMs } = forecast;
  return (
    <div className="expected">
      <progress
        aria-label="Expected progress"
        max={typicalMs}
        value={Math.min(elapsedMs, typicalMs)}
      />
      <p className="hint">
        {formatWholeSeconds(elapsedMs)} elapsed, usually takes {formatWholeSeconds(typicalMs)} ·{' '}
        <ExpectedEnd job={job} />
      </p>
    </div>
  );
}

const formatWholeSeconds = (ms: number): string =>
  formatDuration(Math.ceil(ms / 1000) * 1000).replace('.0', '');
