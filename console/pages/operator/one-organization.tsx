/** One organization: its state and balance, what can be done, and its ledger. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Loading, Refusal } from '../../parts/states.tsx';
import { Credits, Id, Moment, State } from '../../parts/values.tsx';
import { ReasonedAction } from './reasoned-action.tsx';
import { Panel } from './panel.tsx';

type Organization = OperatorSchemas['Organization'];

/** Shows an organization to operators. */
export function OneOrganization({ id }: { id: string }) {
  const params = { path: { organizationId: id } };
  const { data, error } = useQuery({
    queryKey: ['operator', 'organization', id],
    queryFn: () =>
      answered(operatorApi.GET('/api/admin/v1/organizations/{organizationId}', { params })),
  });
  if (error) return <Refusal error={error} />;
  if (!data) return <Loading />;
  const organization = data.data;
  const { name, status, balance } = organization;
  return (
    <div className="stack">
      <div className="head">
        <h2>{name}</h2>
        <State of={status} />
        <Id of={id} />
        <Actions organization={organization} />
      </div>
      <p className="balance">
        <Credits amount={balance.available} /> credits available,{' '}
        <Credits amount={balance.reserved} /> reserved
      </p>
      <Ledger id={id} />
    </div>
  );
}

function Actions({
  organization: { organizationId, name, status },
}: {
  organization: Organization;
}) {
  const params = { path: { organizationId } };
  return (
    <div className="row">
      <Move id={organizationId} way="grants" />
      <Move id={organizationId} way="take-backs" />
      {status === 'active' ? (
        <ReasonedAction
          verb="Suspend"
          title={`Suspend ${name}`}
          isDangerous
          act={(reason) =>
            answered(
              operatorApi.POST('/api/admin/v1/organizations/{organizationId}/suspend', {
                params,
                body: { reason },
              }),
            )
          }
        >
          <p>All its keys are refused until it is activated again. Jobs that run go on.</p>
        </ReasonedAction>
      ) : (
        <ReasonedAction
          verb="Activate"
          title={`Activate ${name}`}
          act={(reason) =>
            answered(
              operatorApi.POST('/api/admin/v1/organizations/{organizationId}/activate', {
                params,
                body: { reason },
              }),
            )
          }
        >
          <p>Its keys work again immediately.</p>
        </ReasonedAction>
      )}
    </div>
  );
}

const ways = {
  grants: { verb: 'Grant', text: 'Adds credits to the balance.' },
  'take-backs': {
    verb: 'Take back',
    text: 'Takes back credits that are available and not reserved.',
  },
} as const;

function Move({ id: organizationId, way }: { id: string; way: keyof typeof ways }) {
  const { verb, text } = ways[way];
  const [credits, setCredits] = useState('');
  const [moveId, setMoveId] = useState(newMoveId);
  const move = async (reason: string): Promise<void> => {
    const params = { path: { organizationId } };
    const body = { reason, id: moveId, credits: Number(credits) };
    await answered(
      operatorApi.POST(`/api/admin/v1/organizations/{organizationId}/${way}`, { params, body }),
    );
    setMoveId(newMoveId());
    setCredits('');
  };
  return (
    <ReasonedAction
      verb={verb}
      title={`${verb} credits`}
      isDangerous={way === 'take-backs'}
      act={move}
    >
      <p>{text}</p>
      <label>
        Credits
        <input
          type="number"
          required
          min={0.000001}
          max={1_000_000_000}
          step="any"
          value={credits}
          onChange={({ target }) => setCredits(target.value)}
        />
      </label>
      <label>
        <span>
          Id <span className="hint">such as the invoice’s; the same id never moves twice</span>
        </span>
        <input
          required
          maxLength={100}
          value={moveId}
          onChange={({ target }) => setMoveId(target.value)}
        />
      </label>
    </ReasonedAction>
  );
}

const newMoveId = (): string => `console-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`;

function Ledger({ id: organizationId }: { id: string }) {
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'ledger', organizationId],
    initialPageParam: null as number | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/organizations/{organizationId}/ledger', {
          params: { path: { organizationId }, query: { ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => (nextCursor === null ? null : Number(nextCursor)),
  });
  return (
    <>
      <Panel
        title="Ledger"
        heads={['Entry', 'Time', 'Kind', 'Of', 'Posted', 'Reserved', 'Actor and reason']}
        rows={data?.pages.flatMap((page) =>
          page.data.map((entry) => <Entry key={entry.sequence} entry={entry} />),
        )}
        error={error}
        none="No entries yet"
      />
      {hasNextPage && (
        <button type="button" onClick={() => void fetchNextPage()}>
          Show older ones
        </button>
      )}
    </>
  );
}

function Entry({ entry }: { entry: OperatorSchemas['LedgerEntry'] }) {
  const { sequence, createdAt, kind, reservationId, actor, reason } = entry;
  return (
    <tr>
      <td className="number">{sequence}</td>
      <td>
        <Moment at={createdAt} />
      </td>
      <td>{kind}</td>
      <td>
        <code>{reservationId ?? '–'}</code>
      </td>
      <td className="number">
        <Credits amount={entry.postedChange} />
      </td>
      <td className="number">
        <Credits amount={entry.reservedChange} />
      </td>
      <td>{actor && `${actor}: ${reason ?? ''}`}</td>
    </tr>
  );
}
