/** What can be done to a key: replace, limit, revoke. Each asks first. */
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api } from '../../gateway/client.ts';
import { endSession, useWho } from '../../gateway/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { keysQuery, type Key } from './key-query.ts';
import { LimitFields, limitOf, type LimitWish } from './limit-fields.tsx';

interface KeyActionsProps {
  of: Key;
  /** Told a key that took its place, once. */
  show: (key: string) => void;
}

type KeyAction = 'rotate' | 'limit' | 'revoke';

/** Offers the actions on a key. */
export function KeyActions({ of, show }: KeyActionsProps) {
  const who = useWho();
  const [action, setAction] = useState<KeyAction | null>(null);
  const refusal = who.refuses('keys:write');
  const limited = who.limit === null ? null : 'A key that has a limit itself may not change any.';
  const mayRevoke = who.scopes.includes('keys:write');
  const own = { of, onClose: () => setAction(null) };
  return (
    <div className="row">
      <button
        type="button"
        disabled={refusal !== null}
        title={refusal ?? undefined}
        onClick={() => setAction('rotate')}
      >
        Rotate
      </button>
      <button
        type="button"
        disabled={(refusal ?? limited) !== null}
        title={refusal ?? limited ?? undefined}
        onClick={() => setAction('limit')}
      >
        Limit
      </button>
      <button
        type="button"
        className="danger"
        disabled={!mayRevoke}
        title={mayRevoke ? undefined : (refusal ?? undefined)}
        onClick={() => setAction('revoke')}
      >
        Revoke
      </button>
      {action === 'rotate' && <Rotate {...own} show={show} />}
      {action === 'limit' && <Limit {...own} />}
      {action === 'revoke' && <Revoke {...own} />}
    </div>
  );
}

interface KeyActionProps {
  of: Key;
  onClose: () => void;
}

function useListAnew(): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: keysQuery.queryKey });
}

const overlaps = [
  [0, 'at once'],
  [3600, 'in an hour'],
  [86_400, 'in a day'],
  [604_800, 'in a week'],
] as const;

function Rotate({
  of: { keyId, name },
  onClose,
  show,
}: KeyActionProps & Pick<KeyActionsProps, 'show'>) {
  const listAnew = useListAnew();
  const isOwn = useWho().keyId === keyId;
  const [overlapSeconds, setOverlap] = useState(86_400);
  const rotate = async (): Promise<void> => {
    const params = { path: { keyId } };
    const made = await answered(
      api.POST('/api/v1/api-keys/{keyId}/rotate', { params, body: { overlapSeconds } }),
    );
    await listAnew();
    show(made.key);
  };
  return (
    <Ask title={`Rotate “${name}”`} verb="Make a new key" act={rotate} onClose={onClose}>
      <p>
        A new key with the same name and rights takes its place. Put it wherever the old one is used
        before that one ends.
        {isOwn && ' You are signed in with this key. When it expires, sign in with the new one.'}
      </p>
      <label>
        The old key ends
        <select value={overlapSeconds} onChange={({ target }) => setOverlap(Number(target.value))}>
          {overlaps.map(([seconds, text]) => (
            <option key={seconds} value={seconds}>
              {text}
            </option>
          ))}
        </select>
      </label>
    </Ask>
  );
}

function Limit({ of: { keyId, name, limit }, onClose }: KeyActionProps) {
  const listAnew = useListAnew();
  const [wish, setWish] = useState<LimitWish>({
    credits: limit ? String(limit.credits) : '',
    per: limit?.per ?? 'month',
  });
  const set = async (): Promise<void> => {
    const params = { path: { keyId } };
    const body = { limit: limitOf(wish) };
    await answered(api.PUT('/api/v1/api-keys/{keyId}/limit', { params, body }));
    await listAnew();
  };
  return (
    <Ask title={`Limit of “${name}”`} verb="Set the limit" act={set} onClose={onClose}>
      <p>Credits already used in the period count. Leave empty for no limit.</p>
      <LimitFields wish={wish} change={setWish} />
    </Ask>
  );
}

function Revoke({ of: { keyId, name, keyPrefix }, onClose }: KeyActionProps) {
  const client = useQueryClient();
  const listAnew = useListAnew();
  const isOwn = useWho().keyId === keyId;
  const end = () =>
    answered(api.DELETE('/api/v1/api-keys/{keyId}', { params: { path: { keyId } } }));
  const revoke = async (): Promise<void> => {
    if (isOwn) return endSession(client, 'You revoked the key you were signed in with.', end);
    await end();
    await listAnew();
  };
  return (
    <Ask
      title={`Revoke “${name}”`}
      verb={isOwn ? 'Revoke it and sign out' : 'Revoke it'}
      isDangerous
      act={revoke}
      onClose={onClose}
    >
      <p>
        From its next request on, whoever uses <code>{keyPrefix}…</code> is refused. Jobs that it
        started go on to their end. This cannot be taken back.
      </p>
      {isOwn && (
        <p>
          <strong>You are signed in with this key.</strong> You will be signed out, and need another
          key to come back.
        </p>
      )}
    </Ask>
  );
}
