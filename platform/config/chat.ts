/** Chat: models, prices, the sandbox that stands in, and how long each side may be silent. */
import { z } from 'zod';
import { count } from './values.ts';

/** See the file's head; keys of the providers are read by chat-upstreams.ts. */
export const chatVariables = {
  /** JSON: chat models of the operator's own, and ids taken out (docs/catalog.md). */
  CHAT_MODELS_FILE: z.string().min(1).optional(),
  /** Added to the catalog's chat prices: 0.2 is 20 % on top. */
  CHAT_PRICE_MARKUP: z.coerce.number().min(0).max(10).default(0),
  /** Serves the chat models of providers that have no key (chat-upstreams.ts). */
  SANDBOX_CHAT_OPENAI_URL: z.url().optional(),
  SANDBOX_CHAT_ANTHROPIC_URL: z.url().optional(),
  SANDBOX_CHAT_KEY: z.string().min(8).optional(),
  /** How long an upstream may take to begin its answer (a whole one when it is not streamed). */
  CHAT_ANSWER_TIMEOUT_MS: count(1000, 3_600_000).default(600_000),
  /** How long a stream may be silent. */
  CHAT_SILENCE_TIMEOUT_MS: count(1000, 3_600_000).default(120_000),
  /** A caller who takes nothing of a stream for this long is dropped. */
  CHAT_STALL_TIMEOUT_MS: count(100, 600_000).default(30_000),
  /** Proxies cut silent connections, many after 30 s; design §6 promises 15 s at most. */
  CHAT_KEEPALIVE_MS: count(50, 15_000).default(10_000),
  /** How often running chats are recorded, and how long a chat without a record is believed to run. */
  CHAT_CHECKPOINT_MS: count(50, 600_000).default(5000),
  CHAT_RESERVATION_TTL_MS: count(200, 86_400_000).default(60_000),
  /** A key that leaves more chats in ten minutes before their cost is known, and so more than it pays, is refused. */
  CHAT_ABANDONED_MAX: count(1, 1_000_000).default(20),
  /** Connections to one provider. */
  CHAT_CONNECTIONS_MAX: count(1, 65_000).default(1024),
};
