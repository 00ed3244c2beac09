/** Form for a new key. The key can only have scopes and models that the session's key has. */
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { unwrap, api } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { FormDialog, type FieldReader, type RequestKeys } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';
import { keysQuery } from './key-query.ts';
import { LimitFields, readLimits } from './limit-fields.tsx';
import { ModelChoice } from './model-choice.tsx';
import { ScopeChoice, appScopes, type Scope } from './scope-choice.tsx';

interface NewKeyProps {
  onClose: () => void;
  /** Receives the new key, to show it once. */
  showNewKey: (key: string) => void;
}

/** Shows the form for a new key. */
export function NewKey({ onClose, showNewKey }: NewKeyProps) {
  const sessionKey = useSessionKey();
  const client = useQueryClient();
  const [scopes, setScopes] = useState<Scope[]>(() => appScopes(sessionKey));
  const [allowedModels, setAllowedModels] = useState<string[]>([]);
  const create = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const expiresAt = read('expires');
    const body = {
      name: read('name'),
      scopes,
      ...(allowedModels.length > 0 && { allowedModels }),
      ...readLimits(read),
      ...(expiresAt !== '' && { expiresAt: new Date(expiresAt).getTime() }),
    };
    const params = { header: { 'Idempotency-Key': keyOf(body) } };
    const created = await unwrap(api.POST('/api/v1/api-keys', { params, body }));
    await client.invalidateQueries({ queryKey: keysQuery.queryKey });
    showNewKey(created.key);
  };
  return (
    <FormDialog
      title="New key"
      verb="Create key"
      perform={create}
      onClose={onClose}
      isIncomplete={scopes.length === 0}
    >
      <TextField label="Name" name="name" required maxLength={64} placeholder="My app" />
      <ScopeChoice sessionKey={sessionKey} selected={scopes} select={setScopes} />
      <ModelChoice sessionKey={sessionKey} selected={allowedModels} select={setAllowedModels} />
      <LimitFields limits={null} />
      <TextField
        label="Expires"
        hint="optional; your local time"
        name="expires"
        type="datetime-local"
      />
    </FormDialog>
  );
}
