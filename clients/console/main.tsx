/** Entry point of the console. */
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { ApiError, serverNowMs } from './gateway/client.ts';
import { checkSession } from './gateway/session.ts';
import { applyTheme } from './parts/theme.tsx';
import './styles/tokens.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/parts.css';
import './styles/pages.css';
import './styles/usage.css';
import './styles/keys.css';
import './styles/models.css';
import './styles/operator.css';

/** Checks after a 401 whether the session has ended. */
function onError(error: Error): void {
  if (!(error instanceof ApiError) || error.status !== 401) return;
  checkSession(client);
}

const client = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    // A mutation that fails offline is not sent later by itself: it may cost credits.
    mutations: { networkMode: 'always' },
    queries: {
      // Jobs are updated by events (gateway/live.tsx). Other data may be up to 30 seconds old.
      staleTime: 30_000,
      refetchOnWindowFocus: false,
      // Only temporary failures are retried.
      retry: (_, error) => error instanceof ApiError && error.isTemporary,
      retryDelay: (attempt, error) =>
        error instanceof ApiError && error.retryAtMs !== null
          ? Math.max(error.retryAtMs - serverNowMs(), 0)
          : Math.min(1000 * 2 ** attempt, 15_000),
    },
  },
});

applyTheme();
document.addEventListener('keydown', ({ key, metaKey, ctrlKey, repeat, target }) => {
  if (key !== 'Enter' || !(metaKey || ctrlKey) || repeat || !(target instanceof Element)) return;
  const form = target.closest('form');
  // While a request runs, the button is disabled, which does not stop `requestSubmit`.
  if (!form?.querySelector('[type=submit]:disabled')) form?.requestSubmit();
});
const container = document.querySelector('#console');
if (container) {
  createRoot(container).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
