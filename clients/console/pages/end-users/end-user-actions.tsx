/** Actions on end users: set limits and remove them, suspend, revoke browser tokens. Each asks for confirmation. */
import { useQueryClient } from '@tanstack/react-query';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ConfirmButton, type FieldReader } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';
import { CreditLimitFields, readCreditLimit, readUseLimits } from '../keys/limit-fields.tsx';

/** End user with its limits. */
export type EndUser = Schemas['EndUser'];

/** Name of the limits of all end users without limits of their own. */
export const allOthers = '*';
/** Fields that an end user can inherit. */
const inheritable: Record<Schemas['InheritedField'], true> = {
  suspended: true,
  limit: true,
  rateLimit: true,
};
/** Query key of everything about end users. */
export const endUsersKey = ['end-users'];

const nameOf = (endUser: string): string => (endUser === allOthers ? 'all others' : `“${endUser}”`);

/** Returns why the session may not change end users, and functions that change limits and remove them. */
function useChanges() {
  const client = useQueryClient();
  const sessionKey = useSessionKey();
  const limitedReason =
    sessionKey.limit === null ? null : 'A key that has a limit itself may not change limits.';
  return {
    disabledReason: sessionKey.explainDenial('keys:write') ?? limitedReason,
    change: async (
      endUser: string,
      body: { limit?: EndUser['limit']; rateLimit?: number | null; suspended?: boolean },
    ): Promise<void> => {
      const params = { path: { endUser } };
      await unwrap(api.PUT('/api/v1/end-users/{endUser}', { params, body }));
      await client.invalidateQueries({ queryKey: endUsersKey });
    },
    remove: async (endUser: string): Promise<void> => {
      await unwrap(api.DELETE('/api/v1/end-users/{endUser}', { params: { path: { endUser } } }));
      await client.invalidateQueries({ queryKey: endUsersKey });
    },
  };
}

const readLimits = (read: FieldReader) => ({
  limit: readCreditLimit(read),
  rateLimit: readUseLimits(read).rateLimit,
});

function Fields({ limits }: Pick<LimitsProps, 'limits'>) {
  return (
    <>
      <CreditLimitFields limit={limits?.limit ?? null} />
      <TextField
        label="Jobs and chats a minute"
        name="rateLimit"
        type="number"
        min={1}
        max={1_000_000}
        placeholder="No limit"
        defaultValue={limits?.rateLimit ?? ''}
      />
    </>
  );
}

interface LimitsProps {
  endUser: string;
  /** Limits of the end user; undefined if they are not loaded. */
  limits: EndUser | undefined;
}

/** Shows the button that sets the limits of an end user of the list. */
export function LimitsButton({ endUser, limits }: LimitsProps) {
  const { change, disabledReason } = useChanges();
  return (
    <ConfirmButton
      label="Limits"
      title={`Limits of ${nameOf(endUser)}`}
      verb="Save"
      done="Limits saved"
      perform={(read) => change(endUser, readLimits(read))}
      disabledReason={disabledReason}
    >
      <p>
        {endUser === allOthers
          ? 'They apply to each end user without limits of its own.'
          : 'Credits already used in the current period count toward the limit.'}{' '}
        Leave a field empty for no limit.
      </p>
      <Fields limits={limits} />
    </ConfirmButton>
  );
}

/** Shows the button that sets the limits of an end user by its name. */
export function NewLimitsButton() {
  const { change, disabledReason } = useChanges();
  return (
    <ConfirmButton
      className="primary"
      label="Limit an end user"
      title="Limit an end user"
      verb="Save"
      done="Limits saved"
      perform={(read) => change(read('endUser'), readLimits(read))}
      disabledReason={disabledReason}
    >
      <TextField
        label="End user"
        hint="the text that your requests send"
        name="endUser"
        required
        maxLength={128}
        placeholder="customer-7"
      />
      <Fields limits={undefined} />
    </ConfirmButton>
  );
}

/** Shows the button that suspends an end user, or ends its suspension. */
export function SuspendButton({ endUser, limits }: LimitsProps) {
  const { change, disabledReason } = useChanges();
  const suspended = limits?.suspended ?? false;
  const verb = suspended ? 'Resume' : 'Suspend';
  return (
    <ConfirmButton
      title={`${verb} ${nameOf(endUser)}`}
      verb={verb}
      done={suspended ? 'Resumed' : 'Suspended'}
      isDangerous={!suspended}
      perform={() => change(endUser, { suspended: !suspended })}
      disabledReason={disabledReason}
    >
      <p>
        {suspended
          ? 'New jobs and chats are accepted again.'
          : 'New jobs and chats are rejected. Running ones continue.'}
      </p>
    </ConfirmButton>
  );
}

/** Shows the button that removes the limits of an end user, unless it has none of its own. */
export function DefaultsButton({ endUser, limits }: LimitsProps) {
  const { remove, disabledReason } = useChanges();
  if (!limits || limits.inherited.length === Object.keys(inheritable).length) return null;
  return (
    <ConfirmButton
      label="Use defaults"
      title={`Use defaults for ${nameOf(endUser)}`}
      verb="Use defaults"
      done="Defaults apply"
      perform={() => remove(endUser)}
      disabledReason={disabledReason}
    >
      <p>
        Its own limits and suspension are removed, and those of all others apply. What was spent
        stays.
      </p>
    </ConfirmButton>
  );
}

/** Shows the button that revokes the browser tokens of an end user. */
export function RevokeTokensButton({ endUser }: { endUser: string }) {
  const revoke = (): Promise<unknown> =>
    unwrap(api.DELETE('/api/v1/end-users/{endUser}/tokens', { params: { path: { endUser } } }));
  return (
    <ConfirmButton
      label="Revoke tokens"
      title={`Revoke tokens of ${nameOf(endUser)}`}
      verb="Revoke"
      done="Tokens revoked"
      isDangerous
      perform={revoke}
      disabledReason={useSessionKey().explainDenial('keys:write')}
    >
      <p>
        Pages with a browser token of this end user are rejected immediately, until your server
        gives them a new one. Running jobs continue.
      </p>
    </ConfirmButton>
  );
}
