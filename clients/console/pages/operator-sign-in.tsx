/** Form to sign in as an operator. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import { useLocation } from 'wouter';
import { ApiError, unwrap } from '../gateway/client.ts';
import { operatorApi } from '../gateway/operator.ts';
import { reloadSession } from '../gateway/session.ts';
import { TextField } from '../parts/fields.tsx';
import { ErrorMessage } from '../parts/states.tsx';

/** Shows a form that signs an operator in. */
export function OperatorSignIn() {
  const client = useQueryClient();
  const [location, navigate] = useLocation();
  const [key, setKey] = useState('');
  const [name, setName] = useState('');
  const signIn = useMutation({
    async mutationFn() {
      await startSession(key.trim(), name.trim());
      await reloadSession(client);
      if (!location.startsWith('/operator')) navigate('/operator', { replace: true });
    },
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    signIn.mutate();
  };
  return (
    <form className="stack" onSubmit={submit} aria-label="Sign in as an operator">
      <TextField
        label="Operator’s key"
        type="password"
        autoComplete="off"
        spellCheck={false}
        placeholder="gk_oper_… or the admin key"
        required
        value={key}
        change={setKey}
      />
      <TextField
        label="Your name"
        hint="only needed with the admin key"
        maxLength={100}
        value={name}
        change={setName}
      />
      <button type="submit" className="primary" disabled={signIn.isPending}>
        {signIn.isPending ? 'Signing in…' : 'Sign in as an operator'}
      </button>
      <ErrorMessage error={signIn.error} />
    </form>
  );
}

/** Starts an operator session. @throws Error with a message for the user */
async function startSession(key: string, name: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}` };
  const body = name === '' ? {} : { actor: name };
  await unwrap(operatorApi.POST('/api/admin/v1/session', { headers, body })).catch(
    (error: unknown) => {
      const known = error instanceof ApiError ? error : undefined;
      if (known?.status === 401) {
        throw new Error('This is not an operator key, or the key was revoked.');
      }
      if (known?.details.some(({ path }) => path === 'actor')) {
        throw new Error('This is the admin key: enter your name for the action log.');
      }
      throw error;
    },
  );
}
