/** A chat that streams, with its price before and its cost after. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { eventData } from '../../../clients/typescript/event-stream.ts';
import { answered, api, send, type Schemas } from '../../gateway/client.ts';
import { useWho } from '../../gateway/session.ts';
import { Refusal } from '../../parts/states.tsx';
import { Credits } from '../../parts/values.tsx';
import { CopyAs } from './copy-as.tsx';

interface Message {
  id: number;
  role: 'user' | 'assistant';
  content: string;
  credits?: number | undefined;
}

/** Events of POST /api/v1/chat/completions with `stream` that are read here. */
interface Event {
  type?: string;
  delta?: string;
  creditsConsumed?: number;
  error?: string;
  message?: string;
}

/** Chats with a model. */
export default function Chat() {
  const [messages, setMessages] = useState<Message[]>([]);
  const [text, setText] = useState('');
  const [chosen, choose] = useState(() => new URLSearchParams(location.search).get('model'));
  const models = useModels();
  const model = chosen ?? models[0]?.id ?? '';
  const chat = useChat({ setMessages });
  const sent: Message[] = [...messages, { id: messages.length, role: 'user', content: text }];
  const body = { model, messages: sent.map(({ role, content }) => ({ role, content })) };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (text.trim() === '' || chat.isPending) return;
    setMessages([...sent, { id: sent.length, role: 'assistant', content: '' }]);
    setText('');
    chat.ask(body, () => {
      // Nothing typed is lost.
      setMessages(messages);
      setText(text);
    });
  };
  return (
    <>
      <div className="head">
        <h1>Chat</h1>
        <ModelChoice model={model} models={models} choose={choose} />
      </div>
      <div className="stack">
        <div className="chat-log" aria-live="polite">
          {messages.map((message) => (
            <Said key={message.id} message={message} />
          ))}
        </div>
        <Refusal error={chat.error} />
        <form className="card stack" onSubmit={submit}>
          <label>
            Your message
            <textarea
              value={text}
              required
              onChange={({ target }) => setText(target.value)}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) submit(event);
              }}
            />
          </label>
          <SendRow body={body} isReady={text.trim() !== '' && model !== ''} chat={chat} />
          <CopyAs path="/api/v1/chat" body={body} />
        </form>
      </div>
    </>
  );
}

interface SendRowProps {
  body: { model: string; messages: object[] };
  isReady: boolean;
  chat: Pick<ReturnType<typeof useChat>, 'isPending' | 'stop'>;
}

function SendRow({ body, isReady, chat: { isPending, stop } }: SendRowProps) {
  const refusal = useWho().refuses('chat');
  return (
    <div className="price">
      {refusal ? <p className="hint">{refusal}</p> : <Estimate body={body} enabled={isReady} />}
      <div className="row">
        {isPending && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
        <button
          type="submit"
          className="primary"
          disabled={isPending || refusal !== null || !isReady}
          title={refusal ?? 'Ctrl + Enter'}
        >
          {isPending ? 'Answering…' : 'Send'}
        </button>
      </div>
    </div>
  );
}

function Said({ message: { role, content, credits } }: { message: Message }) {
  return (
    <article className={role} aria-label={role}>
      {content || <span className="dim">…</span>}
      {credits !== undefined && (
        <p className="hint">
          <Credits amount={credits} /> credits
        </p>
      )}
    </article>
  );
}

type ChatModel = Schemas['ListModelsAnswer']['models'][number];

function useModels(): readonly ChatModel[] {
  const { data } = useQuery({
    queryKey: ['models'],
    queryFn: () => answered(api.GET('/api/v1/models')),
    staleTime: Infinity,
  });
  return data?.models ?? [];
}

interface ModelChoiceProps {
  model: string;
  models: readonly ChatModel[];
  choose: (model: string) => void;
}

function ModelChoice({ model, models, choose }: ModelChoiceProps) {
  return (
    <label className="check">
      Model
      <select value={model} onChange={({ target }) => choose(target.value)}>
        {models.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Estimate({
  body,
  enabled,
}: {
  body: { model: string; messages: object[] };
  enabled: boolean;
}) {
  const asked = JSON.stringify(body);
  const estimate = useMutation({
    mutationFn: () => answered(api.POST('/api/v1/chat/estimate', { body: JSON.parse(asked) })),
  });
  const { data } = estimate;
  return (
    <p className="row">
      <button type="button" className="quiet" disabled={!enabled} onClick={() => estimate.mutate()}>
        Estimate cost
      </button>
      {data && (
        <span>
          at most <Credits amount={data.data.most} /> credits
        </span>
      )}
    </p>
  );
}

type Change = (next: (messages: Message[]) => Message[]) => void;

interface Asked {
  body: object;
  stopper: AbortController;
  /** Puts back what was typed. */
  undo: () => void;
}

function useChat({ setMessages }: { setMessages: Change }) {
  const client = useQueryClient();
  const said = (change: (last: Message) => Message): void =>
    setMessages((messages) =>
      messages.map((each, at) => (at === messages.length - 1 ? change(each) : each)),
    );
  const { variables, isPending, error, mutate } = useMutation({
    async mutationFn({ body, stopper: { signal } }: Asked) {
      const request = { method: 'POST', body: { ...body, stream: true }, signal };
      for await (const data of eventData(await send('/api/v1/chat', request))) {
        if (data === '[DONE]') break;
        said(grown(JSON.parse(data)));
      }
    },
    onError(_, { stopper, undo }) {
      if (!stopper.signal.aborted) undo();
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['usage'] }),
  });
  return {
    isPending,
    error: variables?.stopper.signal.aborted ? null : error,
    ask: (body: object, undo: () => void) => mutate({ body, undo, stopper: new AbortController() }),
    stop: () => variables?.stopper.abort(),
  };
}

/** What an event adds to an answer. @throws Error when the provider's answer broke off */
function grown(event: Event): (last: Message) => Message {
  if (event.type === 'error') throw new Error(event.message ?? 'The answer ended unexpectedly.');
  return (last) => ({
    ...last,
    content: last.content + (event.delta ?? ''),
    credits: event.creditsConsumed ?? last.credits,
  });
}
