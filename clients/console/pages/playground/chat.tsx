/** Chat page. Shows the estimated price of a message, and the charged credits of each answer. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { ArrowDown, RefreshCw } from 'lucide-react';
import {
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  type KeyboardEvent,
  type SubmitEvent,
} from 'react';
import { Link } from 'wouter';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { useDebounced } from '../../parts/debounced.ts';
import { Empty, ErrorMessage } from '../../parts/states.tsx';
import { MostCredits } from '../../parts/amounts.tsx';
import { ChatSettingsForm, useChatModels, type ChatSettings } from './chat-settings.tsx';
import { useChat, type Message } from './chat-stream.ts';
import { ChatMessage, Pictures, useChatHistory } from './chat-message.tsx';
import { CopyAsCode } from './copy-as.tsx';
import { chatEstimateQuery } from './estimate-query.ts';
import { Shortfall, useShortfall } from './shortfall.tsx';

interface ChatBody {
  model: string;
  messages: { role: 'system' | 'user' | 'assistant'; content: string | object[] }[];
  temperature?: number;
  max_tokens?: number;
}

const noSettings = { system: '', temperature: '', maxTokens: '' };

/** Shows the chat page. */
export default function Chat() {
  const [messages, setMessages] = useChatHistory();
  const { models, suggestedIds, isLoading } = useChatModels();
  const [chosenSettings, setChosenSettings] = useState<Partial<ChatSettings>>(() => {
    const linked = new URLSearchParams(location.search).get('model');
    return linked === null ? {} : { model: linked };
  });
  const model = suggestedIds[0] ?? models[0]?.id ?? '';
  const settings = { model, ...noSettings, ...chosenSettings };
  const chat = useChat({ setMessages });
  const send = (sent: readonly Message[], restore: () => void): void => {
    const answer = { role: 'assistant', content: '', model: settings.model } as const;
    setMessages([...sent, { id: sent.length, ...answer }]);
    chat.send(buildBody(settings, sent), () => {
      setMessages(messages);
      restore();
    });
  };
  const { isAtEnd, goToEnd } = useFollow(messages);
  return (
    <>
      <ChatHead
        isEmpty={messages.length === 0}
        isPending={chat.isPending}
        clear={() => setMessages([])}
      />
      <ChatSettingsForm
        settings={settings}
        models={models}
        isLoading={isLoading}
        change={(change) => setChosenSettings({ ...chosenSettings, ...change })}
      />
      <div className="stack chat">
        <div className="chat-log" aria-live="polite">
          {messages.length === 0 && <NoMessages />}
          {messages.map((message) => (
            <ChatMessage key={message.id} message={message} />
          ))}
          {messages.at(-1)?.role === 'assistant' && !chat.isPending && (
            <button
              type="button"
              className="quiet"
              onClick={() => send(messages.slice(0, -1), () => undefined)}
            >
              <RefreshCw aria-hidden /> Regenerate
            </button>
          )}
        </div>
        <div className="chat-end">
          {!isAtEnd && (
            <button type="button" className="to-end" onClick={goToEnd}>
              <ArrowDown aria-hidden /> {chat.isPending ? 'New' : 'To the end'}
            </button>
          )}
          <ErrorMessage error={chat.error} />
          <Composer
            messages={messages}
            settings={settings}
            isKnown={models.some(({ id }) => id === settings.model)}
            chat={chat}
            send={send}
          />
        </div>
      </div>
    </>
  );
}

function NoMessages() {
  return (
    <Empty title="No messages yet">
      Choose a model, and write below. The price is shown before you send. Compare{' '}
      <Link href="/models">models and prices</Link>.
    </Empty>
  );
}

interface ChatHeadProps {
  isEmpty: boolean;
  isPending: boolean;
  clear: () => void;
}

function ChatHead({ isEmpty, isPending, clear }: ChatHeadProps) {
  return (
    <div className="head">
      <h1>Chat</h1>
      <p className="hint">
        The messages stay in this browser, also after you sign out, until you start a new chat.
      </p>
      {!isEmpty && (
        <button type="button" disabled={isPending} onClick={clear}>
          New chat
        </button>
      )}
    </div>
  );
}

/** Distance from the end of the page within which it counts as scrolled to the end, in pixels. */
const endPixels = 60;

const scrollToEnd = (): void => scrollTo({ top: document.documentElement.scrollHeight });

/**
 * Keeps the page scrolled to its end while messages arrive, unless the reader has scrolled up.
 * A new message of the user scrolls to the end in any case.
 */
function useFollow(messages: readonly Message[]) {
  const [isAtEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const goToEnd = (): void => {
    follows.current = true;
    scrollToEnd();
  };
  useEffect(() => {
    const onScroll = (): void => {
      const { scrollHeight } = document.documentElement;
      follows.current = innerHeight + scrollY >= scrollHeight - endPixels;
      setAtEnd(follows.current);
    };
    addEventListener('scroll', onScroll, { passive: true });
    return () => removeEventListener('scroll', onScroll);
  }, []);
  const shownCount = useRef(0);
  useLayoutEffect(() => {
    if (messages.length !== shownCount.current) follows.current = true;
    shownCount.current = messages.length;
    if (follows.current && messages.length > 0) scrollToEnd();
  }, [messages]);
  return { isAtEnd, goToEnd };
}

interface ComposerProps {
  messages: readonly Message[];
  settings: ChatSettings;
  /** True if the chosen model exists. */
  isKnown: boolean;
  chat: ReturnType<typeof useChat>;
  /** Sends all messages. `restore` is called if the request fails. */
  send: (messages: readonly Message[], restore: () => void) => void;
}

/** First messages that a new chat offers. They are put into the text field, and sent by the user. */
const firstMessages = [
  'A product text for an enamel mug',
  'Three ways to store pictures, as a table',
  'What is a webhook?',
];

function FirstMessages({ choose }: { choose: (message: string) => void }) {
  return (
    <div className="row">
      {firstMessages.map((message) => (
        <button key={message} type="button" className="chip" onClick={() => choose(message)}>
          {message}
        </button>
      ))}
    </div>
  );
}

/** Shows the form with which a message is written, at the bottom of the page. */
function Composer({ messages, settings, isKnown, chat, send }: ComposerProps) {
  const [text, setText] = useState('');
  const [pictures, setPictures] = useState<readonly string[]>([]);
  const toSend: Message[] = [
    ...messages,
    { id: messages.length, role: 'user', content: text, pictures },
  ];
  const body = buildBody(settings, toSend);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (text.trim() === '' || settings.model === '' || chat.isPending) return;
    setText('');
    setPictures([]);
    send(toSend, () => {
      // If the request fails, the user's message is put back into the text field.
      setText(text);
      setPictures(pictures);
    });
  };
  return (
    <form className="card stack composer" onSubmit={submit}>
      {messages.length === 0 && text === '' && <FirstMessages choose={setText} />}
      <label>
        <span>
          Your message <span className="hint">Enter sends it, Shift+Enter starts a new line</span>
        </span>
        <textarea
          dir="auto"
          rows={1}
          value={text}
          required
          onKeyDown={sendOnEnter}
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      <div className="row">
        <Pictures pictures={pictures} change={setPictures} />
        <CopyAsCode path="/api/v1/chat" body={{ ...body }} />
        <SendRow body={body} isReady={text.trim() !== '' && isKnown} chat={chat} />
      </div>
    </form>
  );
}

/** Sends the form on Enter. */
function sendOnEnter(event: KeyboardEvent<HTMLTextAreaElement>): void {
  // While an input method composes a character, Enter accepts it.
  if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
  event.preventDefault();
  event.currentTarget.form?.requestSubmit();
}

/** Builds the request body. Empty settings are omitted, so that the model's defaults apply. */
function buildBody(settings: ChatSettings, messages: readonly Message[]): ChatBody {
  const { model, system, temperature, maxTokens } = settings;
  return {
    model,
    messages: [
      ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system }]),
      ...messages.map(({ role, content, pictures = [] }) => ({
        role,
        content:
          pictures.length === 0
            ? content
            : [
                { type: 'text' as const, text: content },
                ...pictures.map((url) => ({ type: 'image_url' as const, image_url: { url } })),
              ],
      })),
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

/** Delay between the last keystroke and the request for the price. */
const debounceMs = 600;

function ChatEstimate({ body, enabled }: { body: ChatBody; enabled: boolean }) {
  const currentJson = JSON.stringify(body);
  const debouncedJson = useDebounced(currentJson, debounceMs);
  const { data, error } = useQuery({
    ...chatEstimateQuery(debouncedJson),
    enabled: enabled && debouncedJson === currentJson,
    placeholderData: keepPreviousData,
  });
  const shortfall = useShortfall(data?.data.most);
  if (!enabled || !data || error)
    return <p className="dim">The price appears when you type a message.</p>;
  return (
    <>
      <p>
        <MostCredits credits={data.data.most} />
      </p>
      <Shortfall reason={shortfall} />
    </>
  );
}
