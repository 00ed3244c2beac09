/** Message of a chat: text as Markdown, pictures, and what the answer cost. */
import Markdown from 'markdown-to-jsx';
import { Copy, ImagePlus } from 'lucide-react';
import { useEffect, useState } from 'react';
import { useSessionKey } from '../../gateway/session.ts';
import { compactNumber, Credits, UsdPrice } from '../../parts/amounts.tsx';
import { copyText } from '../../parts/copy.ts';
import { formatDuration } from '../../parts/times.tsx';
import { showToast } from '../../parts/toast.tsx';
import type { Message } from './chat-stream.ts';

/** Returns the messages, which are stored in the browser for each organization, and a function that sets them. */
export function useChatHistory() {
  const storageKey = `chat ${useSessionKey().organizationId}`;
  const state = useState<Message[]>(() => JSON.parse(localStorage.getItem(storageKey) ?? '[]'));
  const [messages] = state;
  useEffect(() => {
    // Pictures are too large to be stored.
    const withoutPictures = (name: string, value: unknown): unknown =>
      name === 'pictures' ? undefined : value;
    localStorage.setItem(storageKey, JSON.stringify(messages, withoutPictures));
  }, [messages, storageKey]);
  return state;
}

const markdownOptions = {
  // Inline HTML is shown as text, and pictures as links, because answers are not trusted.
  disableParsingRawHTML: true,
  overrides: {
    img: ({ alt, src }: { alt?: string; src?: string }) => <a href={src}>{alt}</a>,
    // Each block has the direction of its own text; code is written from left to right.
    ...Object.fromEntries(
      ['p', 'ul', 'ol', 'li', 'table', 'blockquote', 'h1', 'h2', 'h3', 'h4'].map((tag) => [
        tag,
        { props: { dir: 'auto' } },
      ]),
    ),
    pre: { props: { dir: 'ltr' } },
    code: { props: { dir: 'ltr' } },
  },
};

/** Shows a message. */
export function ChatMessage({ message }: { message: Message }) {
  const { role, content, pictures = [] } = message;
  return (
    <article className={role} aria-label={role} dir="auto">
      {pictures.map((url) => (
        <img key={url} src={url} alt="Attached" />
      ))}
      {content === '' && <span className="dim">…</span>}
      {role === 'assistant' ? <Markdown options={markdownOptions}>{content}</Markdown> : content}
      {role === 'assistant' && content !== '' && <AnswerFacts message={message} />}
    </article>
  );
}

function AnswerFacts({
  message: { content, model, firstMs, tokens, credits },
}: {
  message: Message;
}) {
  const facts = [
    model,
    firstMs !== undefined && `first text after ${formatDuration(firstMs)}`,
    tokens &&
      `${compactNumber.format(tokens.input)} + ${compactNumber.format(tokens.output)} tokens`,
  ].filter(Boolean);
  const copy = async (): Promise<void> =>
    showToast((await copyText(content, null)) ? 'Copied' : 'This page has no clipboard.');
  return (
    <p className="hint row">
      <span>{facts.join(' · ')}</span>
      {credits !== undefined && (
        <span>
          <Credits amount={credits} /> credits <UsdPrice credits={credits} />
        </span>
      )}
      <button type="button" className="quiet" aria-label="Copy answer" onClick={() => void copy()}>
        <Copy aria-hidden />
      </button>
    </p>
  );
}

interface PicturesProps {
  pictures: readonly string[];
  change: (pictures: readonly string[]) => void;
}

/** Shows a button that adds pictures to the message, and the added ones. */
export function Pictures({ pictures, change }: PicturesProps) {
  const add = async (files: FileList | null): Promise<void> =>
    change([...pictures, ...(await Promise.all([...(files ?? [])].map(readDataUrl)))]);
  return (
    <div className="row">
      <label className="button">
        <ImagePlus aria-hidden /> Add pictures
        <input
          className="unseen"
          type="file"
          multiple
          accept="image/png,image/jpeg,image/webp,image/gif"
          onChange={({ target }) => void add(target.files)}
        />
      </label>
      {pictures.map((url, index) => (
        <button
          key={url}
          type="button"
          aria-label={`Remove picture ${index + 1}`}
          onClick={() => change(pictures.filter((other) => other !== url))}
        >
          <img className="thumb" src={url} alt="" />
        </button>
      ))}
    </div>
  );
}

function readDataUrl(file: File): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const reader = new FileReader();
  reader.addEventListener('load', () =>
    typeof reader.result === 'string'
      ? resolve(reader.result)
      : reject(new Error('The picture cannot be read.')),
  );
  reader.addEventListener('error', () => reject(new Error('The picture cannot be read.')));
  reader.readAsDataURL(file);
  return promise;
}
