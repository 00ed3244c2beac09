/** Sends a chat and streams the answer. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { readEvents } from '../../../typescript/event-stream.ts';
import { sendRequest } from '../../gateway/client.ts';

/** Message of a chat. */
export interface Message {
  id: number;
  role: 'user' | 'assistant';
  content: string;
  /** Credits charged for the answer. */
  credits?: number | undefined;
}

/** Event in the stream of POST /api/v1/chat, with the fields that the console reads. */
interface ChatEvent {
  type?: string;
  delta?: string;
  creditsConsumed?: number | null;
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
    async mutationFn({ body, controller: { signal } }: SentChat) {
      const request = { method: 'POST', body: { ...body, stream: true }, signal };
      for await (const data of readEvents(await sendRequest('/api/v1/chat', request))) {
        if (data === '[DONE]') break;
        changeLastMessage(applyEvent(JSON.parse(data)));
      }
    },
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

/** Returns a function that appends an event to a message. @throws Error if it is an error event */
function applyEvent(event: ChatEvent): (last: Message) => Message {
  if (event.type === 'error') throw new Error(event.message ?? 'The answer ended unexpectedly.');
  return (last) => ({
    ...last,
    content: last.content + (event.delta ?? ''),
    credits: event.creditsConsumed ?? last.credits,
  });
}
