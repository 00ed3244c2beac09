/** Operators’ actions, newest first. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { answered } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
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
    <div className="stack">
      <Panel
        title="Action"
        heads={['Time', 'Who', 'What', 'To', 'Why']}
        rows={data?.pages.flatMap((page) =>
          page.data.map(({ id, createdAt, actor, action, subject, reason }) => (
            <tr key={id}>
              <td>
                <Moment at={createdAt} />
              </td>
              <td>{actor}</td>
              <td>{action.replaceAll('_', ' ')}</td>
              <td>
                <code>{subject}</code>
              </td>
              <td>{reason}</td>
            </tr>
          )),
        )}
        error={error}
        none="Nothing was done yet"
      />
      {hasNextPage && (
        <button type="button" onClick={() => void fetchNextPage()}>
          Show older ones
        </button>
      )}
    </div>
  );
}
