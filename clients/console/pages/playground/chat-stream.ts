/** Sends a chat and streams the answer. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { readEvents } from '../../../typescript/event-stream.ts';
import { sendRequest } from '../../gateway/client.ts';

/** Message of a chat. */
export interface Message {
  id: number;
  role: 'user' | 'assistant';
  content: string;
  /** Data URLs of pictures that are sent with the text. */
  pictures?: readonly string[];
  model?: string;
  /** Time from sending the message to the first text of the answer, in milliseconds. */
  firstMs?: number | undefined;
  tokens?: { input: number; output: number } | undefined;
  /** Credits charged for the answer. */
  credits?: number | undefined;
}

/** Event in the stream of POST /api/v1/chat, with the fields that the console reads. */
interface ChatEvent {
  type?: string;
  delta?: string;
  creditsConsumed?: number | null;
  usage?: { inputTokens: number; outputTokens: number } | null;
  error?: string;
  message?: string;
}

type SetMessages = (next: (messages: Message[]) => Message[]) => void;

interface SentChat {
  body: object;
  controller: AbortController;
  /** Restores the messages and the input text from before the request. */
  restore: () => void;
}

/**
 * Returns functions that send a chat and stop its answer. Each part of the answer is appended to
 * the last message as it arrives.
 */
export function useChat({ setMessages }: { setMessages: SetMessages }) {
  const client = useQueryClient();
  const changeLastMessage = (change: (last: Message) => Message): void =>
    setMessages((messages) =>
      messages.map((message, index) => (index === messages.length - 1 ? change(message) : message)),
    );
  const { variables, isPending, error, mutate } = useMutation({
    mutationFn: ({ body, controller: { signal } }: SentChat) =>
      streamChat(body, changeLastMessage, signal),
    onError(_, { controller, restore }) {
      if (!controller.signal.aborted) restore();
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['usage'] }),
  });
  return {
    isPending,
    error: variables?.controller.signal.aborted ? null : error,
    send: (body: object, restore: () => void) =>
      mutate({ body, restore, controller: new AbortController() }),
    stop: () => variables?.controller.abort(),
  };
}

/**
 * Sends a chat, and calls `change` with an edit of the answer's message for each event.
 * @throws ApiError, or Error if the stream has an error event
 */
export async function streamChat(
  body: object,
  change: (edit: (last: Message) => Message) => void,
  signal?: AbortSignal,
): Promise<void> {
  const sentAtMs = performance.now();
  const request = { method: 'POST', body: { ...body, stream: true }, ...(signal && { signal }) };
  for await (const data of readEvents(await sendRequest('/api/v1/chat', request))) {
    if (data === '[DONE]') break;
    change(applyEvent(JSON.parse(data), performance.now() - sentAtMs));
  }
}

/** Returns a function that appends an event to a message. @throws Error if it is an error event */
function applyEvent(event: ChatEvent, elapsedMs: number): (last: Message) => Message {
  if (event.type === 'error') throw new Error(event.message ?? 'The answer ended unexpectedly.');
  const { delta, usage, creditsConsumed } = event;
  return (last) => ({
    ...last,
    content: last.content + (delta ?? ''),
    firstMs: last.firstMs ?? (delta ? elapsedMs : undefined),
    tokens: usage ? { input: usage.inputTokens, output: usage.outputTokens } : last.tokens,
    credits: creditsConsumed ?? last.credits,
  });
}
