/** The page to sign in: with an API key, or by a link that was made with one. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { ApiError, answered, api } from '../gateway/client.ts';
import { changeSession, useWhyEnded } from '../gateway/session.ts';
import { Refusal } from '../parts/states.tsx';
import { OperatorSignIn } from './operator-sign-in.tsx';

/** What a link has behind its number sign. */
const linkForm = /^#link=([\w-]+)$/;

/** See the file's head. */
export function SignIn() {
  const [key, setKey] = useState('');
  const signIn = useSignIn();
  const why = useWhyEnded();
  const token = linkForm.exec(location.hash)?.[1];
  const used = useRef(false);
  useEffect(() => {
    if (token === undefined || used.current) return;
    used.current = true;
    // Once read it has no place in the history.
    history.replaceState(null, '', '/console/sign-in');
    signIn.mutate({ token });
  }, [token, signIn]);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    signIn.mutate({ key: key.trim() });
  };
  return (
    <main className="sign-in">
      <div className="stack">
        <span className="mark large" aria-hidden="true" />
        <h1>Studio Gateway</h1>
        {why && <p role="status">{why}</p>}
        <p className="dim">
          Sign in with an API key. It is exchanged for a session; your browser does not keep it.
        </p>
        <form onSubmit={submit} className="stack" aria-label="Sign in">
          <label>
            API key
            <input
              type="password"
              autoComplete="off"
              spellCheck={false}
              placeholder="gk_live_…"
              required
              value={key}
              onChange={({ target }) => setKey(target.value)}
            />
          </label>
          <button type="submit" className="primary" disabled={signIn.isPending}>
            {signIn.isPending ? 'Signing in…' : 'Sign in'}
          </button>
          <Refusal error={signIn.error} />
        </form>
        <details>
          <summary>I operate this gateway</summary>
          <OperatorSignIn />
        </details>
      </div>
    </main>
  );
}

function useSignIn() {
  const client = useQueryClient();
  const [place, go] = useLocation();
  return useMutation({
    mutationFn: (by: { key: string } | { token: string }) =>
      'key' in by ? byKey(by.key) : byLink(by.token),
    async onSuccess() {
      await changeSession(client);
      if (place === '/sign-in') go('/', { replace: true });
    },
  });
}

function byLink(token: string) {
  return answered(api.POST('/api/v1/session/links/use', { body: { token } }));
}

async function byKey(key: string) {
  const headers = { authorization: `Bearer ${key}` };
  return answered(api.POST('/api/v1/session', { headers })).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    throw new Error('This is not a valid key of this gateway, or it was revoked or has expired.');
  });
}
