/** One organization: its state, balance, actions, ledger, users and keys. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Loading, Refusal } from '../../parts/states.tsx';
import { Credits, Id, Money, State } from '../../parts/values.tsx';
import { Ledger } from './ledger.tsx';
import { ReasonedAction } from './reasoned-action.tsx';
import { Users } from './users.tsx';

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
        <Credits amount={balance.available} /> credits available{' '}
        <Money credits={balance.available} />, <Credits amount={balance.reserved} /> reserved ·{' '}
        <Link href={`/operator/jobs?organizationId=${id}`}>View jobs</Link>
      </p>
      <Ledger id={id} />
      <Users id={id} />
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
          <p>All its keys are rejected until it is activated. Running jobs continue.</p>
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
          <p>Its keys are accepted again immediately.</p>
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
          Id{' '}
          <span className="hint">
            for example of the invoice; the same id moves credits only once
          </span>
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
