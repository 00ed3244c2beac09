/** Root of the console. Shows the sign-in page, or the pages for the current session. */
import { useQuery } from '@tanstack/react-query';
import { Suspense, type ReactNode } from 'react';
import { Redirect, Route, Router, Switch } from 'wouter';
import { LiveJobs } from './gateway/live.tsx';
import { sessionQuery, useLoadedSessionKey } from './gateway/session.ts';
import { SignIn } from './pages/sign-in.tsx';
import { ErrorBoundary } from './parts/error-boundary.tsx';
import { lazyPage } from './parts/lazy-page.tsx';
import { Shell } from './parts/shell.tsx';
import { Loading } from './parts/states.tsx';

const Playground = lazyPage(() => import('./pages/playground/playground.tsx'));
const Compare = lazyPage(() => import('./pages/playground/compare.tsx'));
const Pipelines = lazyPage(() => import('./pages/playground/pipelines.tsx'));
const Chat = lazyPage(() => import('./pages/playground/chat.tsx'));
const Jobs = lazyPage(() => import('./pages/job/jobs.tsx'));
const OneJob = lazyPage(() => import('./pages/job/one-job.tsx'));
const Requests = lazyPage(() => import('./pages/requests/requests.tsx'));
const OneRequest = lazyPage(() => import('./pages/requests/one-request.tsx'));
const Bulk = lazyPage(() => import('./pages/bulk/bulk.tsx'));
const OneBulk = lazyPage(() => import('./pages/bulk/one-bulk.tsx'));
const Files = lazyPage(() => import('./pages/files/files.tsx'));
const Keys = lazyPage(() => import('./pages/keys/keys.tsx'));
const EndUsers = lazyPage(() => import('./pages/end-users/end-users.tsx'));
const Usage = lazyPage(() => import('./pages/usage/usage.tsx'));
const Webhooks = lazyPage(() => import('./pages/webhooks/webhooks.tsx'));
const Operator = lazyPage(() => import('./pages/operator/operator.tsx'));
const SharedResult = lazyPage(() => import('./pages/shared-result.tsx'));
const Models = lazyPage(() => import('./pages/models/models.tsx'));

/** Shows the page for the current URL. */
export function App() {
  return (
    <Router base="/console">
      <ErrorBoundary>
        <Suspense fallback={<Loading />}>
          <Switch>
            <Route path="/sign-in">
              <SignIn />
            </Route>
            <Route path="/share" component={SharedResult} />
            <Route>
              <SignedIn>
                <Pages />
              </SignedIn>
            </Route>
          </Switch>
        </Suspense>
      </ErrorBoundary>
    </Router>
  );
}

/** Shows the pages of a session, or the sign-in page. The menu stays while both are loading, so that it loses no click. */
function SignedIn({ children }: { children: ReactNode }) {
  const { data } = useQuery(sessionQuery);
  const sessionKey = useLoadedSessionKey(Boolean(data?.session));
  if (data && !data.session) return data.operator ? <OperatorOnly /> : <SignIn />;
  const readsJobs = sessionKey?.explainDenial('studio:read') === null;
  return (
    <LiveJobs keyId={sessionKey?.keyId ?? null} enabled={readsJobs}>
      <Shell sessionKey={sessionKey}>{sessionKey ? children : <Loading />}</Shell>
    </LiveJobs>
  );
}

/** Shows only the operator pages: an operator is signed in, but no caller. */
function OperatorOnly() {
  return (
    <LiveJobs keyId={null} enabled={false}>
      <Shell sessionKey={null}>
        <ErrorBoundary>
          <Suspense fallback={<Loading />}>
            <Operator />
          </Suspense>
        </ErrorBoundary>
      </Shell>
    </LiveJobs>
  );
}

function Pages() {
  return (
    <ErrorBoundary>
      <Suspense fallback={<Loading />}>
        <Switch>
          <Route path="/">
            <Redirect to="/playground/image/generate" replace />
          </Route>
          <Route path="/chat">
            <Redirect to="/playground/chat" replace />
          </Route>
          <Route path="/playground/chat" component={Chat} />
          <Route path="/playground/pipelines" component={Pipelines} />
          <Route path="/playground/compare" component={Compare} />
          <Route path="/playground/*?">{(params) => <Playground name={params['*'] ?? ''} />}</Route>
          <Route path="/jobs" component={Jobs} />
          <Route path="/jobs/:jobId">{({ jobId }) => <OneJob key={jobId} jobId={jobId} />}</Route>
          <Route path="/requests" component={Requests} />
          <Route path="/requests/:id">{({ id }) => <OneRequest key={id} id={id} />}</Route>
          <Route path="/bulk" component={Bulk} />
          <Route path="/bulk/:bulkId">
            {({ bulkId }) => <OneBulk key={bulkId} bulkId={bulkId} />}
          </Route>
          <Route path="/files" component={Files} />
          <Route path="/keys" component={Keys} />
          <Route path="/usage" component={Usage} />
          <Route path="/end-users" component={EndUsers} />
          <Route path="/webhooks" component={Webhooks} />
          <Route path="/operator/*?" component={Operator} />
          <Route path="/models" component={Models} />
          <Route>
            <section className="empty">
              <h1>Page not found</h1>
              <p>Choose a page from the menu.</p>
            </section>
          </Route>
        </Switch>
      </Suspense>
    </ErrorBoundary>
  );
}
