/** Actions on an API key: rotate, change the limit, revoke. Each asks for confirmation. */
import { useQueryClient } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';
import { endSession, useSessionKey } from '../../gateway/session.ts';
import { ConfirmButton, type FieldReader, type RequestKeys } from '../../parts/dialog.tsx';
import { OverlapField } from '../../parts/fields.tsx';
import { keysQuery, type Key } from './key-query.ts';
import { LimitFields, readLimits } from './limit-fields.tsx';

interface KeyActionsProps {
  apiKey: Key;
  /** Receives the new key after a rotation, to show it once. */
  showNewKey: (key: string) => void;
}

/** Shows the buttons that rotate, limit and revoke a key. */
export function KeyActions({ apiKey, showNewKey }: KeyActionsProps) {
  return (
    <div className="row">
      <RotateButton apiKey={apiKey} showNewKey={showNewKey} />
      <LimitButton apiKey={apiKey} />
      <RevokeButton apiKey={apiKey} />
    </div>
  );
}

function useReloadKeys(): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: keysQuery.queryKey });
}

function RotateButton({ apiKey: { keyId, name }, showNewKey }: KeyActionsProps) {
  const reloadKeys = useReloadKeys();
  const sessionKey = useSessionKey();
  const rotate = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const body = { overlapSeconds: Number(read('overlap')) };
    const params = { path: { keyId }, header: { 'Idempotency-Key': keyOf(body) } };
    const rotated = await unwrap(api.POST('/api/v1/api-keys/{keyId}/rotate', { params, body }));
    await reloadKeys();
    showNewKey(rotated.key);
  };
  return (
    <ConfirmButton
      title={`Rotate “${name}”`}
      verb="Rotate"
      perform={rotate}
      disabledReason={sessionKey.explainDenial('keys:write')}
    >
      <p>
        A new key with the same name and permissions replaces this key. Deploy the new key before
        the old one expires.
        {sessionKey.keyId === keyId &&
          ' You are signed in with this key. When it expires, sign in with the new one.'}
      </p>
      <OverlapField label="The old key expires" />
    </ConfirmButton>
  );
}

function LimitButton({ apiKey }: Pick<KeyActionsProps, 'apiKey'>) {
  const { keyId, name } = apiKey;
  const reloadKeys = useReloadKeys();
  const sessionKey = useSessionKey();
  const limitedReason =
    sessionKey.limit === null ? null : 'A key that has a limit itself may not change limits.';
  const save = async (read: FieldReader): Promise<void> => {
    const params = { path: { keyId } };
    const body = readLimits(read);
    await unwrap(api.PUT('/api/v1/api-keys/{keyId}/limit', { params, body }));
    await reloadKeys();
  };
  return (
    <ConfirmButton
      label="Limits"
      title={`Limits of “${name}”`}
      verb="Save"
      done="Limits saved"
      perform={save}
      disabledReason={sessionKey.explainDenial('keys:write') ?? limitedReason}
    >
      <p>
        Credits already used in the current period count toward the limit. Leave a field empty for
        no limit. Keys that this key created share its limits.
      </p>
      <LimitFields limits={apiKey} />
    </ConfirmButton>
  );
}

function RevokeButton({ apiKey: { keyId, name, keyPrefix } }: Pick<KeyActionsProps, 'apiKey'>) {
  const client = useQueryClient();
  const reloadKeys = useReloadKeys();
  const sessionKey = useSessionKey();
  const isSessionKey = sessionKey.keyId === keyId;
  // `explainDenial` says that a viewer may not create keys, but a viewer may revoke keys.
  const mayRevoke = sessionKey.scopes.includes('keys:write');
  const revokeKey = () =>
    unwrap(api.DELETE('/api/v1/api-keys/{keyId}', { params: { path: { keyId } } }));
  const revoke = async (): Promise<void> => {
    if (isSessionKey)
      return endSession(client, 'You revoked the key you were signed in with.', revokeKey);
    await revokeKey();
    await reloadKeys();
  };
  return (
    <ConfirmButton
      label="Revoke"
      title={`Revoke “${name}”`}
      verb={isSessionKey ? 'Revoke and sign out' : 'Revoke'}
      done="Key revoked"
      isDangerous
      perform={revoke}
      disabledReason={mayRevoke ? null : sessionKey.explainDenial('keys:write')}
    >
      <p>
        Requests with <code>{keyPrefix}…</code> are rejected immediately. Running jobs continue.
        This cannot be undone.
      </p>
      {isSessionKey && (
        <p>
          <strong>You are signed in with this key.</strong> You will be signed out and need another
          key to sign in again.
        </p>
      )}
    </ConfirmButton>
  );
}
