/** Sign-in page. Accepts an API key, or a sign-in link that was created with an API key. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState, type SubmitEvent } from 'react';
import { useLocation } from 'wouter';
import { ApiError, unwrap, api } from '../gateway/client.ts';
import { reloadSession, keyQuery, sessionQuery, useEndReason } from '../gateway/session.ts';
import { TextField } from '../parts/fields.tsx';
import { Loading, ErrorMessage } from '../parts/states.tsx';
import { OperatorSignIn } from './operator-sign-in.tsx';

/** URL fragment of a sign-in link. It contains the token. */
const linkPattern = /^#link=([\w-]+)$/;

/** Shows the sign-in page. */
export function SignIn() {
  const [key, setKey] = useState('');
  const signIn = useSignIn();
  const endReason = useEndReason();
  const [token] = useState(() => linkPattern.exec(location.hash)?.[1]);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    signIn.mutate({ key: key.trim() });
  };
  return (
    <main className="sign-in">
      <title>Sign in · Studio Gateway</title>
      <div className="card stack">
        <span className="mark large" aria-hidden="true" />
        <h1>Studio Gateway</h1>
        {endReason && <p role="status">{endReason}</p>}
        <p className="dim">
          Sign in with an API key, from your operator or from a colleague’s page <i>API keys</i>.
          The browser stores a session, not the key. <a href="/docs">API reference</a>
        </p>
        <form onSubmit={submit} className="stack" aria-label="Sign in">
          <TextField
            label="API key"
            type="password"
            autoComplete="off"
            spellCheck={false}
            placeholder="gk_live_…"
            required
            value={key}
            change={setKey}
          />
          <button type="submit" className="primary" disabled={signIn.isPending}>
            {signIn.isPending ? 'Signing in…' : 'Sign in'}
          </button>
          <ErrorMessage error={signIn.error} />
        </form>
        {token !== undefined && <LinkSignIn token={token} />}
        <details>
          <summary>I operate this gateway</summary>
          <OperatorSignIn />
        </details>
      </div>
    </main>
  );
}

/** Signs in with a link. Asks for confirmation first if the browser already has a session. */
function LinkSignIn({ token }: { token: string }) {
  const { data: session } = useQuery({ ...sessionQuery, staleTime: Infinity });
  const hasSession = Boolean(session?.session);
  const { data: key } = useQuery({ ...keyQuery, enabled: hasSession });
  const [, navigate] = useLocation();
  const { mutate, isIdle, isPending, error } = useSignIn();
  const hasStarted = useRef(false);
  useEffect(() => {
    // The token works only once and must not stay in the browser history.
    history.replaceState(null, '', '/console/sign-in');
  }, []);
  useEffect(() => {
    if (!session || hasSession || hasStarted.current) return;
    hasStarted.current = true;
    mutate({ token });
  }, [session, hasSession, mutate, token]);
  if (!hasSession || !isIdle) return isPending ? <Loading /> : <ErrorMessage error={error} />;
  if (!key) return <Loading />;
  return (
    <section className="card stack" aria-labelledby="replace-session">
      <h2 id="replace-session">Replace this session?</h2>
      <p>
        This browser is signed in to {key.organizationName} with the key {key.name} (
        <code>{key.keyPrefix}…</code>). The link would replace this session with one for another
        key.
      </p>
      <div className="row">
        <button type="button" onClick={() => navigate('/', { replace: true })}>
          Keep this session
        </button>
        <button type="button" className="primary" onClick={() => mutate({ token })}>
          Replace session
        </button>
      </div>
    </section>
  );
}

function useSignIn() {
  const client = useQueryClient();
  const [location, navigate] = useLocation();
  return useMutation({
    mutationFn: (credential: { key: string } | { token: string }) =>
      'key' in credential ? signInWithKey(credential.key) : signInWithLink(credential.token),
    async onSuccess() {
      await reloadSession(client);
      if (location === '/sign-in') navigate('/', { replace: true });
    },
  });
}

function signInWithLink(token: string) {
  return unwrap(api.POST('/api/v1/session/links/use', { body: { token } }));
}

async function signInWithKey(key: string) {
  const headers = { authorization: `Bearer ${key}` };
  return unwrap(api.POST('/api/v1/session', { headers })).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    throw new Error('This is not a valid API key, or the key was revoked or has expired.');
  });
}
