/** The frame around every page: menu, credits, the session's key, and connection problems. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { Menu as MenuIcon, Search } from 'lucide-react';
import {
  Suspense,
  useCallback,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from 'react';
import { Link, useLocation } from 'wouter';
import { version } from '../package.json' with { type: 'json' };
import { useConnection } from '../gateway/live.tsx';
import { useIsOperator } from '../gateway/operator.ts';
import { api, unwrap } from '../gateway/client.ts';
import { balanceQuery, sessionQuery, useSignOut, type SessionKey } from '../gateway/session.ts';
import { useCloseOnNavigation } from './close-on-navigation.ts';
import { lazyPage } from './lazy-page.tsx';
import { RateLimited } from './rate-limited.tsx';
import { ThemeSwitch } from './theme.tsx';
import { Toasts } from './toast.tsx';
import { Credits, UsdPrice } from './amounts.tsx';

const SearchEverything = lazyPage(() => import('../pages/search-everything.tsx'));

/** Menu entries for callers. An entry links to `to`. It is current if the URL starts with `path`. */
export const callerPages = [
  { name: 'Playground', path: '/playground', to: '/playground/image/generate' },
  { name: 'Chat', path: '/playground/chat', to: '/playground/chat' },
  { name: 'Jobs', path: '/jobs', to: '/jobs' },
  { name: 'Requests', path: '/requests', to: '/requests' },
  { name: 'Files', path: '/files', to: '/files' },
  { name: 'Bulk', path: '/bulk', to: '/bulk' },
  { name: 'Usage', path: '/usage', to: '/usage' },
  { name: 'End users', path: '/end-users', to: '/end-users' },
  { name: 'API keys', path: '/keys', to: '/keys' },
  { name: 'Webhooks', path: '/webhooks', to: '/webhooks' },
  { name: 'Models & prices', path: '/models', to: '/models' },
] as const;
/** Menu entries for operators. */
export const operatorPages = [
  { name: 'Overview', path: '/operator', to: '/operator' },
  { name: 'All jobs', path: '/operator/jobs', to: '/operator/jobs' },
  { name: 'Failing webhooks', path: '/operator/webhooks', to: '/operator/webhooks' },
  { name: 'Organizations', path: '/operator/organizations', to: '/operator/organizations' },
  { name: 'Prices', path: '/operator/prices', to: '/operator/prices' },
  { name: 'Operators', path: '/operator/operators', to: '/operator/operators' },
  { name: 'Actions', path: '/operator/actions', to: '/operator/actions' },
] as const;

/** Query for the number of jobs that wait for a decision. */
const waitingCountQuery = queryOptions({
  queryKey: ['job-count', { phase: 'awaiting_approval' }],
  queryFn: () =>
    unwrap(
      api.GET('/api/v1/studio/jobs/count', { params: { query: { phase: 'awaiting_approval' } } }),
    ),
});

interface ShellProps {
  /** The session's key. Null if only an operator is signed in; undefined while it loads. */
  sessionKey: SessionKey | null | undefined;
  children: ReactNode;
}

/** Shows a page with the menu and the header. */
export function Shell({ sessionKey, children }: ShellProps) {
  const [isOpen, setOpen] = useState(false);
  useCloseOnNavigation(useCallback(() => setOpen(false), []));
  return (
    <div className="shell">
      <a className="skip" href="#page">
        Skip to content
      </a>
      <header className="side">
        <Link href="/" className="brand" aria-label="Studio Gateway">
          <span className="mark" aria-hidden="true" />
          <span className="name">Studio Gateway</span>
        </Link>
        {/* A narrow screen shows the menu while it is open. */}
        <input
          id="menu"
          type="checkbox"
          className="unseen"
          aria-label="Menu"
          checked={isOpen}
          onChange={({ target }) => setOpen(target.checked)}
        />
        <label htmlFor="menu" className="menu-button" aria-hidden="true">
          <MenuIcon />
        </label>
        {/* What appears later stands below the menu, whose entries move under no pointer. */}
        {sessionKey !== null && <SearchButton isReady={sessionKey !== undefined} />}
        <Menu isCaller={sessionKey !== null} />
        {sessionKey && <WaitingForYou sessionKey={sessionKey} />}
        <div className="person">
          {sessionKey && <Account sessionKey={sessionKey} />}
          {sessionKey === null && <Link href="/sign-in">Sign in with an API key</Link>}
          <p className="row hint">
            <a href="/docs" target="_blank" rel="noreferrer">
              API docs
            </a>
            <a href="/readyz" target="_blank" rel="noreferrer">
              Status
            </a>
            <span>v{version}</span>
          </p>
          <SignOut />
        </div>
      </header>
      <div className="main">
        <ConnectionLost />
        <RateLimited />
        <main id="page" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Toasts />
    </div>
  );
}

/** Shows the button that searches everything, as Ctrl+K and ⌘K do. */
function SearchButton({ isReady }: { isReady: boolean }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (!isReady) return undefined;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen(true);
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [isReady]);
  return (
    <>
      <button
        type="button"
        className="search-button"
        disabled={!isReady}
        aria-keyshortcuts="Control+K Meta+K"
        onClick={() => setOpen(true)}
      >
        <Search aria-hidden /> <span>Search</span> <kbd aria-hidden>Ctrl K</kbd>
      </button>
      {isOpen && (
        <Suspense fallback={null}>
          <SearchEverything onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}

function Menu({ isCaller }: { isCaller: boolean }) {
  const [location] = useLocation();
  const isOperator = useIsOperator();
  const visiblePages = [...(isCaller ? callerPages : []), ...(isOperator ? operatorPages : [])];
  const currentPage = visiblePages
    .filter(({ path }) => location === path || location.startsWith(`${path}/`))
    .toSorted((one, other) => other.path.length - one.path.length)[0];
  const renderItems = (items: readonly (typeof visiblePages)[number][]) => (
    <ul>
      {items.map((page) => (
        <MenuItem key={page.path} page={page} isCurrent={page === currentPage} />
      ))}
    </ul>
  );
  return (
    <>
      <PageTitle name={currentPage?.name ?? 'Console'} />
      {isCaller && <nav aria-label="Pages">{renderItems(callerPages)}</nav>}
      {isOperator && (
        <nav aria-label="Operator">
          {isCaller && <p className="hint">Operator</p>}
          {renderItems(operatorPages)}
        </nav>
      )}
    </>
  );
}

/** Shows how many jobs wait for a decision, with a link to them; nothing if none does. */
function WaitingForYou({ sessionKey }: { sessionKey: SessionKey }) {
  const mayRead = sessionKey.explainDenial('studio:read') === null;
  const { data } = useQuery({ ...waitingCountQuery, enabled: mayRead });
  if (!data || data.data.count === 0) return null;
  return (
    <Link href="/jobs?phase=awaiting_approval" className="waiting">
      Waiting for you <span className="chip">{data.data.count}</span>
    </Link>
  );
}

/**
 * Names the tab, with the id of what the page shows, and moves the focus to a page that a link has
 * opened: a reader continues at its start.
 */
function PageTitle({ name }: { name: string }) {
  const [location] = useLocation();
  const opened = useRef(location);
  useEffect(() => {
    if (opened.current === location) return;
    opened.current = location;
    const page = document.querySelector<HTMLElement>('#page');
    // A form may have taken the focus, and keeps it.
    const isUnfocused = !document.activeElement?.closest('#page, dialog');
    if (isUnfocused) page?.focus({ preventScroll: true });
  }, [location]);
  const [, id] = /\/(?:[a-z]+_)([0-9a-f]{32})$/.exec(location) ?? [];
  return <title>{`${name}${id === undefined ? '' : ` …${id.slice(-8)}`} · Studio Gateway`}</title>;
}

interface MenuItemProps {
  page: { name: string; to: string };
  isCurrent: boolean;
}

function MenuItem({ page: { name, to }, isCurrent }: MenuItemProps) {
  return (
    <li>
      <Link href={to} aria-current={isCurrent ? 'page' : undefined}>
        {name}
      </Link>
    </li>
  );
}

function SignOut() {
  const { data } = useQuery(sessionQuery);
  const signOut = useSignOut();
  return (
    <>
      {data?.operator && <p className="who dim">Operator: {data.operator.name}</p>}
      <div className="row">
        <ThemeSwitch />
        <button type="button" className="quiet" onClick={() => signOut.mutate()}>
          Sign out
        </button>
      </div>
    </>
  );
}

function Account({ sessionKey }: { sessionKey: SessionKey }) {
  const readsUsage = sessionKey.explainDenial('usage:read') === null;
  const { data } = useQuery({ ...balanceQuery, enabled: readsUsage });
  return (
    <>
      {data && (
        <p className="balance">
          <Credits amount={data.balance.available} />
          <span className="dim"> credits</span> <UsdPrice credits={data.balance.available} />
          {data.balance.reserved > 0 && (
            <span className="dim reserved">
              <Credits amount={data.balance.reserved} /> reserved
            </span>
          )}
        </p>
      )}
      <p className="who">
        {sessionKey.organizationName}
        <span className="dim">
          {sessionKey.name} · {sessionKey.role}
        </span>
      </p>
    </>
  );
}

function watchOnline(notify: () => void): () => void {
  for (const event of ['online', 'offline']) addEventListener(event, notify);
  return () => {
    for (const event of ['online', 'offline']) removeEventListener(event, notify);
  };
}

function ConnectionLost() {
  const isLost = useConnection() === 'lost';
  const isOnline = useSyncExternalStore(watchOnline, () => navigator.onLine);
  return (
    <div role="status" aria-live="polite">
      {!isOnline && (
        <p className="away">
          This device is offline. The console keeps your input, and sends nothing until you click
          again.
        </p>
      )}
      {isOnline && isLost && (
        <p className="away">
          The gateway does not respond. The console retries every few seconds and keeps your input.
        </p>
      )}
    </div>
  );
}
