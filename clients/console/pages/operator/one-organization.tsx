/** Page of one organization: state, balance, actions, ledger, users and keys. */
import { useQuery } from '@tanstack/react-query';
import type { OperatorSchemas } from '../../gateway/operator.ts';
import { formatAmount } from '../../parts/amounts.tsx';
import { CopyId } from '../../parts/ids.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import { UseLimitFields, readUseLimits } from '../keys/limit-fields.tsx';
import { organizationQuery } from './links.tsx';
import { Ledger } from './ledger.tsx';
import { CreditsField, CreditChangeIdField } from './credit-fields.tsx';
import { OperatorAction } from './operator-action.tsx';
import { Tiles, toTemporalList, type Tile } from '../../parts/tiles.tsx';
import { Users } from './users.tsx';

/** Shows the operators' page of an organization. */
export function OneOrganization({ organizationId }: { organizationId: string }) {
  const { data, error } = useQuery(organizationQuery(organizationId));
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <Loading />;
  const organization = data.data;
  const { name, status } = organization;
  return (
    <div className="stack">
      <div className="head">
        <h2>{name}</h2>
        <State name={status} />
        <CopyId id={organizationId} />
        <Actions organization={organization} />
      </div>
      <Tiles tiles={listTiles(organization)} />
      <Ledger organizationId={organizationId} />
      <Users organizationId={organizationId} />
    </div>
  );
}

function listTiles(organization: OperatorSchemas['OrganizationState']): Tile[] {
  const { organizationId, balance, window, rateLimit, jobsMax, activity } = organization;
  const { openJobs, endedJobs, failedJobs, spentToday, keys, temporalUiUrl } = activity;
  const jobs = `/operator/jobs?organizationId=${organizationId}`;
  const workflows = toTemporalList(temporalUiUrl, `OrganizationId = "${organizationId}"`);
  return [
    {
      name: 'Available',
      value: formatAmount(balance.available),
      hint: `${formatAmount(balance.reserved)} reserved`,
      isBad: balance.available <= 0,
    },
    {
      name: 'Spent today',
      value: formatAmount(spentToday),
      hint:
        window.limit === null
          ? 'no six-hour limit'
          : `${formatAmount(window.used)} of ${formatAmount(window.limit)} in six hours`,
      isBad: window.remaining !== null && window.remaining <= 0,
    },
    {
      name: 'Failed jobs',
      value: failedJobs,
      hint: `of ${endedJobs} ended in 24 h`,
      href: `${jobs}&status=failed`,
      isBad: failedJobs > endedJobs / 2,
    },
    {
      name: 'Open jobs',
      value: openJobs,
      hint: `${jobsMax ?? 'unlimited'} open jobs`,
      href: `${jobs}&status=open`,
      isBad: jobsMax !== null && openJobs >= jobsMax,
    },
    { name: 'Keys', value: keys, hint: `${rateLimit ?? 'default'} requests a minute` },
    { name: 'Workflows', value: '↗', hint: 'in the Temporal UI', href: workflows },
  ];
}

function Actions({ organization }: { organization: OperatorSchemas['Organization'] }) {
  const { organizationId, name, status } = organization;
  const path = `/organizations/${organizationId}`;
  return (
    <div className="row">
      <ChangeCredits verb="Grant" path={`${path}/grants`}>
        Adds credits to the balance.
      </ChangeCredits>
      <ChangeCredits verb="Take back" path={`${path}/take-backs`} isDangerous>
        Removes available credits from the balance. Reserved credits stay.
      </ChangeCredits>
      <OperatorAction
        verb="Save"
        label="Limits"
        title={`Limits of ${name}`}
        method="PUT"
        path={`${path}/limits`}
        body={readUseLimits}
      >
        <p>All keys of the organization share these limits.</p>
        <UseLimitFields limits={organization} />
      </OperatorAction>
      {status === 'active' ? (
        <OperatorAction
          verb="Suspend"
          title={`Suspend ${name}`}
          isDangerous
          path={`${path}/suspend`}
        >
          <p>Its requests are rejected until you activate it again. Running jobs continue.</p>
        </OperatorAction>
      ) : (
        <OperatorAction verb="Activate" title={`Activate ${name}`} path={`${path}/activate`}>
          <p>Requests of the organization are accepted again immediately.</p>
        </OperatorAction>
      )}
    </div>
  );
}

interface ChangeCreditsProps {
  verb: string;
  path: string;
  isDangerous?: boolean;
  children: string;
}

function ChangeCredits({ verb, path, isDangerous = false, children }: ChangeCreditsProps) {
  return (
    <OperatorAction
      verb={verb}
      title={`${verb} credits`}
      isDangerous={isDangerous}
      path={path}
      body={(read) => ({ id: read('id'), credits: Number(read('credits')) })}
    >
      <p>{children}</p>
      <CreditsField required />
      <CreditChangeIdField hint="for example the invoice number; the same id changes credits only once" />
    </OperatorAction>
  );
}
