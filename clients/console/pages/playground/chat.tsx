/** Chat page. Shows the estimated price of a message, and the charged credits of each answer. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import { unwrap, api } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { useDebounced } from '../../parts/debounced.ts';
import { Empty, ErrorMessage } from '../../parts/states.tsx';
import { Credits, UsdPrice } from '../../parts/amounts.tsx';
import { ChatSettingsForm, useChatModels, type ChatSettings } from './chat-settings.tsx';
import { useChat, type Message } from './chat-stream.ts';
import { CopyAsCode } from './copy-as.tsx';

interface ChatBody {
  model: string;
  messages: { role: 'system' | 'user' | 'assistant'; content: string }[];
  temperature?: number;
  max_tokens?: number;
}

const noSettings = { system: '', temperature: '', maxTokens: '' };

/** Shows the chat page. */
export default function Chat() {
  const [messages, setMessages] = useState<Message[]>([]);
  const [text, setText] = useState('');
  const models = useChatModels();
  const [chosenSettings, setChosenSettings] = useState<Partial<ChatSettings>>(() => {
    const model = new URLSearchParams(location.search).get('model');
    return model === null ? {} : { model };
  });
  const settings = { model: models[0]?.id ?? '', ...noSettings, ...chosenSettings };
  const chat = useChat({ setMessages });
  const toSend: Message[] = [...messages, { id: messages.length, role: 'user', content: text }];
  const body = buildBody(settings, toSend);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (text.trim() === '' || chat.isPending) return;
    setMessages([...toSend, { id: toSend.length, role: 'assistant', content: '' }]);
    setText('');
    chat.send(body, () => {
      // If the request fails, the user's message is put back into the text field.
      setMessages(messages);
      setText(text);
    });
  };
  return (
    <>
      <div className="head">
        <h1>Chat</h1>
        {messages.length > 0 && (
          <button type="button" disabled={chat.isPending} onClick={() => setMessages([])}>
            New chat
          </button>
        )}
      </div>
      <div className="two">
        <div className="stack">
          <Messages messages={messages} />
          <ErrorMessage error={chat.error} />
          <form className="card stack" onSubmit={submit}>
            <label>
              Your message
              <textarea value={text} required onChange={({ target }) => setText(target.value)} />
            </label>
            <SendRow
              body={body}
              isReady={text.trim() !== '' && models.some(({ id }) => id === settings.model)}
              chat={chat}
            />
            <CopyAsCode path="/api/v1/chat" body={{ ...body }} />
          </form>
        </div>
        <ChatSettingsForm
          settings={settings}
          models={models}
          change={(change) => setChosenSettings({ ...chosenSettings, ...change })}
        />
      </div>
    </>
  );
}

/** Builds the request body. Empty settings are omitted, so that the model's defaults apply. */
function buildBody(settings: ChatSettings, messages: readonly Message[]): ChatBody {
  const { model, system, temperature, maxTokens } = settings;
  return {
    model,
    messages: [
      ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system }]),
      ...messages.map(({ role, content }) => ({ role, content })),
    ],
    ...(temperature !== '' && { temperature: Number(temperature) }),
    ...(maxTokens !== '' && { max_tokens: Number(maxTokens) }),
  };
}

interface SendRowProps {
  body: ChatBody;
  isReady: boolean;
  chat: Pick<ReturnType<typeof useChat>, 'isPending' | 'stop'>;
}

function SendRow({ body, isReady, chat: { isPending, stop } }: SendRowProps) {
  const denial = useSessionKey().explainDenial('chat');
  return (
    <div className="price">
      {denial ? <p className="hint">{denial}</p> : <ChatEstimate body={body} enabled={isReady} />}
      <div className="row">
        {isPending && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
        <ActionButton
          type="submit"
          className="primary"
          disabled={isPending || !isReady}
          disabledReason={denial}
        >
          {isPending ? 'Answering…' : 'Send'}
        </ActionButton>
      </div>
    </div>
  );
}

function Messages({ messages }: { messages: readonly Message[] }) {
  return (
    <div className="chat-log" aria-live="polite">
      {messages.length === 0 && <Empty title="No messages yet">Send the first one below.</Empty>}
      {messages.map((message) => (
        <ChatMessage key={message.id} message={message} />
      ))}
    </div>
  );
}

function ChatMessage({ message: { role, content, credits } }: { message: Message }) {
  return (
    <article className={role} aria-label={role}>
      {content || <span className="dim">…</span>}
      {credits !== undefined && (
        <p className="hint">
          <Credits amount={credits} /> credits <UsdPrice credits={credits} />
        </p>
      )}
    </article>
  );
}

/** Delay between the last keystroke and the request for the price. */
const debounceMs = 600;

function ChatEstimate({ body, enabled }: { body: ChatBody; enabled: boolean }) {
  const currentJson = JSON.stringify(body);
  const debouncedJson = useDebounced(currentJson, debounceMs);
  const { data, error } = useQuery({
    queryKey: ['chat-estimate', debouncedJson],
    queryFn: () => unwrap(api.POST('/api/v1/chat/estimate', { body: JSON.parse(debouncedJson) })),
    enabled: enabled && debouncedJson === currentJson,
    placeholderData: keepPreviousData,
  });
  if (!enabled || !data || error)
    return <p className="dim">The price appears when you type a message.</p>;
  return (
    <p>
      at most{' '}
      <strong>
        <Credits amount={data.data.most} />
      </strong>{' '}
      credits <UsdPrice credits={data.data.most} />
    </p>
  );
}
