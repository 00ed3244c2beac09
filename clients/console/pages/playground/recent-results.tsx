/** Strip with the latest results of an endpoint. */
import { useQuery } from '@tanstack/react-query';
import { unwrap, api, type Job } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { formatAmount } from '../../parts/amounts.tsx';
import { LinkExpiry } from '../../parts/times.tsx';
import { listMedia } from '../job/job-media.ts';
import { Thumbnail } from '../job/job-row.tsx';
import { ResultActions } from '../job/result-actions.tsx';

const shownMax = 8;

/** Returns the latest jobs of a type that the key may read, newest first. Undefined while they load. */
export function useRecentJobs(type: string): readonly Job[] | undefined {
  const mayRead = useSessionKey().explainDenial('studio:read') === null;
  const filter = { type };
  const { data } = useQuery({
    // The event stream updates all queries under `jobs` (gateway/live.tsx).
    queryKey: ['jobs', filter, 'latest'],
    queryFn: async () => {
      const query = { ...filter, limit: shownMax };
      const page = await unwrap(api.GET('/api/v1/studio/jobs', { params: { query } }));
      return { pages: [page], pageParams: [null] };
    },
    enabled: mayRead,
  });
  return mayRead ? data?.pages[0]?.data.slice(0, shownMax) : [];
}

interface RecentResultsProps {
  jobs: readonly Job[];
  currentId: string | undefined;
  /** Shows a job and loads its request into the form. */
  choose: (jobId: string) => void;
}

/** Shows the latest results of the endpoint. */
export function RecentResults({ jobs, currentId, choose }: RecentResultsProps) {
  return (
    <nav aria-label="Latest results">
      <ul className="strip">
        {jobs.map((job) => (
          <Tile
            key={job.jobId}
            job={job}
            isCurrent={job.jobId === currentId}
            choose={() => choose(job.jobId)}
          />
        ))}
      </ul>
    </nav>
  );
}

interface TileProps {
  job: Job;
  isCurrent: boolean;
  choose: () => void;
}

function Tile({ job, isCurrent, choose }: TileProps) {
  const { jobId, prompt, type, billing } = job;
  const [media] = listMedia(job);
  return (
    <li>
      <button
        type="button"
        aria-current={isCurrent ? 'true' : undefined}
        aria-label={`Load ${prompt ?? jobId}`}
        title={`${prompt ?? type} · ${formatAmount(billing.charged)} credits`}
        onClick={choose}
      >
        <Thumbnail job={job} />
      </button>
      {media && (
        <>
          {media.expiresAt && (
            <p className="hint">
              <LinkExpiry time={media.expiresAt} />
            </p>
          )}
          <ResultActions media={media} jobId={jobId} isCompact />
        </>
      )}
    </li>
  );
}
