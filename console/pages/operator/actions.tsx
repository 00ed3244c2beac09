/** The recorded actions of operators, newest first. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { answered } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
import { idTail, wordsOf } from '../../parts/names.ts';
import { Moment } from '../../parts/values.tsx';
import { Panel } from './panel.tsx';

/** Lists the recorded actions of operators. */
export function Actions() {
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'actions'],
    initialPageParam: null as number | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/actions', {
          params: { query: { ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => (nextCursor === null ? null : Number(nextCursor)),
  });
  return (
    <Panel
      title="Audit log"
      columns={['Time', 'Operator', 'Action', 'Subject', 'Reason']}
      rows={data?.pages.flatMap((page) =>
        page.data.map(({ id, createdAt, actor, action, subject, reason }) => ({
          id: String(id),
          cells: [
            <Moment key="time" at={createdAt} />,
            actor,
            wordsOf(action),
            <Subject key="subject" id={subject} />,
            reason,
          ],
        })),
      )}
      error={error}
      none="No actions yet"
      more={hasNextPage ? () => void fetchNextPage() : null}
    />
  );
}

const pages = [
  ['job_', 'jobs'],
  ['org_', 'organizations'],
] as const;

function Subject({ id }: { id: string }) {
  const page = pages.find(([prefix]) => id.startsWith(prefix))?.[1];
  if (page === undefined) return <code>{id.includes('_') ? idTail(id) : id}</code>;
  return (
    <Link href={`/operator/${page}/${id}`} title={id}>
      <code>{idTail(id)}</code>
    </Link>
  );
}
