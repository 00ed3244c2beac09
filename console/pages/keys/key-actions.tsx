/** Actions on a key: rotate, limit, revoke. Each requires a confirmation. */
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answered, api } from '../../gateway/client.ts';
import { endSession, useWho } from '../../gateway/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { keysQuery, type Key } from './key-query.ts';
import { LimitFields, limitOf, type LimitValues } from './limit-fields.tsx';

interface KeyActionsProps {
  of: Key;
  /** Receives the new key after a rotation; it is shown once. */
  show: (key: string) => void;
}

type KeyAction = 'rotate' | 'limit' | 'revoke';

/** Shows the actions on a key. */
export function KeyActions({ of, show }: KeyActionsProps) {
  const who = useWho();
  const [action, setAction] = useState<KeyAction | null>(null);
  const refusal = who.refuses('keys:write');
  const limited = who.limit === null ? null : 'A key with a limit may not change limits.';
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
  [0, 'immediately'],
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
    <Ask title={`Rotate “${name}”`} verb="Rotate" act={rotate} onClose={onClose}>
      <p>
        A new key with the same name and permissions replaces this key. Deploy the new key before
        the old one expires.
        {isOwn && ' You are signed in with this key. When it expires, sign in with the new one.'}
      </p>
      <label>
        The old key expires
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
  const [values, setValues] = useState<LimitValues>({
    credits: limit ? String(limit.credits) : '',
    per: limit?.per ?? 'month',
  });
  const set = async (): Promise<void> => {
    const params = { path: { keyId } };
    const body = { limit: limitOf(values) };
    await answered(api.PUT('/api/v1/api-keys/{keyId}/limit', { params, body }));
    await listAnew();
  };
  return (
    <Ask title={`Limit of “${name}”`} verb="Save" act={set} onClose={onClose}>
      <p>Credits already used in the period count. Leave empty for no limit.</p>
      <LimitFields values={values} change={setValues} />
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
      verb={isOwn ? 'Revoke and sign out' : 'Revoke'}
      isDangerous
      act={revoke}
      onClose={onClose}
    >
      <p>
        Requests with <code>{keyPrefix}…</code> are rejected immediately. Its running jobs continue.
        This cannot be undone.
      </p>
      {isOwn && (
        <p>
          <strong>You are signed in with this key.</strong> You will be signed out and need another
          key to sign in again.
        </p>
      )}
    </Ask>
  );
}
