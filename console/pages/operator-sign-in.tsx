/** The form to sign in as an operator. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { ApiError, answered } from '../gateway/client.ts';
import { operatorApi } from '../gateway/operator.ts';
import { changeSession } from '../gateway/session.ts';
import { Refusal } from '../parts/states.tsx';

/** Signs an operator in. */
export function OperatorSignIn() {
  const client = useQueryClient();
  const [place, go] = useLocation();
  const [key, setKey] = useState('');
  const [name, setName] = useState('');
  const signIn = useMutation({
    async mutationFn() {
      await begin(key.trim(), name.trim());
      await changeSession(client);
      if (!place.startsWith('/operator')) go('/operator', { replace: true });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    signIn.mutate();
  };
  return (
    <form className="stack" onSubmit={submit} aria-label="Sign in as an operator">
      <label>
        Operator’s key
        <input
          type="password"
          autoComplete="off"
          spellCheck={false}
          placeholder="gk_oper_… or the admin key"
          required
          value={key}
          onChange={({ target }) => setKey(target.value)}
        />
      </label>
      <label>
        <span>
          Your name <span className="hint">only with the admin key</span>
        </span>
        <input maxLength={100} value={name} onChange={({ target }) => setName(target.value)} />
      </label>
      <button type="submit" className="primary" disabled={signIn.isPending}>
        {signIn.isPending ? 'Signing in…' : 'Sign in as an operator'}
      </button>
      <Refusal error={signIn.error} />
    </form>
  );
}

/** Starts the session. @throws Error with a message for the user */
async function begin(key: string, name: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}` };
  const body = name === '' ? {} : { actor: name };
  await answered(operatorApi.POST('/api/admin/v1/session', { headers, body })).catch(
    (error: unknown) => {
      const known = error instanceof ApiError ? error : undefined;
      if (known?.status === 401) {
        throw new Error('This is not an operator key, or it was revoked.');
      }
      if (known?.fields.some(({ path }) => path === 'actor')) {
        throw new Error('This is the admin key: enter your name for the action log.');
      }
      throw error;
    },
  );
}
