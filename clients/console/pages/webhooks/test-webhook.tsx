/** Form that sends a test webhook and shows the request and the response. */
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { TextField } from '../../parts/fields.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { State } from '../../parts/state.tsx';
import { formatDuration } from '../../parts/times.tsx';

/** Shows the test form. `denial` is the reason why the user may not send tests, or null. */
export function TestWebhook({ denial }: { denial: string | null }) {
  const [url, setUrl] = useState('');
  const { data, error, isPending, mutate } = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/webhooks/test', { body: { url } })),
  });
  return (
    <section className="card stack" aria-label="Test">
      <h2>Send a test</h2>
      <p className="dim">
        Sends one event of type <code>webhook.test</code>, signed with your secret.
      </p>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          mutate();
        }}
      >
        <TextField
          label="Receiver URL"
          type="url"
          required
          maxLength={2048}
          placeholder="https://shop.example/hooks/studio"
          value={url}
          change={setUrl}
        />
        <div className="row">
          <ActionButton type="submit" disabled={isPending} disabledReason={denial}>
            {isPending ? 'Sending…' : 'Send test'}
          </ActionButton>
        </div>
      </form>
      <ErrorMessage error={error} />
      <div role="status">{data && <Result result={data.data} />}</div>
    </section>
  );
}

function Result({ result }: { result: Schemas['WebhookTest'] }) {
  const { outcome, status, error, response, durationMs, headers, body } = result;
  const headerLines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <div className="stack">
      <p>
        <State name={outcome} /> {status ?? error}{' '}
        <span className="dim">{durationMs !== null && formatDuration(durationMs)}</span>
      </p>
      {response && <pre className="code">{response}</pre>}
      <details>
        <summary>Request</summary>
        <pre className="code">{[...headerLines, '', body].join('\n')}</pre>
      </details>
    </div>
  );
}
