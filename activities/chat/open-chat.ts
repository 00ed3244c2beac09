/** A chat whose credits are reserved: one upstream call, read once, then settled once. */
import { creditsFromMicro } from '../../domain/credits.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  billOf,
  isAbandoned,
  chatPriceMicro,
  TextMeter,
  type Billing,
  type ChatAccount,
  type ChatEnd,
  type TokenUsage,
} from './chat-price.ts';
import type { ChatProgress, ServedBy } from './chat-ledger.ts';
import {
  withTries,
  type ChatCandidate,
  type ChatCandidates,
  type FailedTry,
} from './chat-candidates.ts';
import type { ChatAnswer, StreamReader, StreamStep } from './protocols/protocol.ts';
import type { RunningChat, RunningChats } from './running-chats.ts';
import { readSteps } from './stream-steps.ts';
import { UnpaidFailure, upstreamBroke } from './upstream-failures.ts';

interface Parts {
  id: string;
  organizationId: string;
  candidates: ChatCandidates;
  reservedMicro: number;
  /** Whether no provider can count more of the input than was reserved. */
  certain: boolean;
  stream: boolean;
  usdPerCredit: number;
  /** Where the chat is noted while it runs, and settled when it has ended. */
  running: Pick<RunningChats, 'add' | 'settle'>;
  /** Raises the reservation as far as the balance goes; returns what is reserved then. */
  raise: (amountMicro: number) => Promise<number>;
  /** Told when the caller left before the provider said what it counts, and what its bill may be. */
  abandon: (lostMicro: number) => void;
  /** Whole answers that are awaited although their callers have left, in this process. */
  drains: { underWay: number };
  logger: Logger;
}

/** What a chat cost. */
export interface ChatBill {
  usage: TokenUsage;
  creditsConsumed: number;
}

/** How long, and for how many at once, a whole answer is awaited whose caller has left. */
const drainMs = 10_000;
const drainsMax = 50;

/** See the file's head. Exactly one of `answer` and `stream` is called, once. */
export class OpenChat implements RunningChat {
  readonly id: string;
  readonly startedAtMs = performance.now();
  /** Models that did not answer. */
  readonly tried: FailedTry[] = [];
  readonly #parts: Parts;
  /** The model that answers, or is asked. */
  #asked: ChatCandidate;
  readonly #cancellation = new AbortController();
  readonly #meter = new TextMeter();
  #reader: StreamReader | null = null;
  #said: ChatAccount['said'] = { final: false };
  #delivered = false;
  #left = false;
  #ended = false;
  #bill: (Billing & { amountMicro: number }) | null = null;
  #drainTimer: NodeJS.Timeout | undefined;

  constructor(parts: Parts) {
    this.id = parts.id;
    this.#parts = parts;
    [this.#asked] = parts.candidates;
    parts.running.add(this);
  }

  /** What the chat cost, once it has ended. */
  get bill(): ChatBill | null {
    if (!this.#bill) return null;
    const { inputTokens, outputTokens, amountMicro } = this.#bill;
    return {
      usage: { inputTokens, outputTokens },
      creditsConsumed: creditsFromMicro(amountMicro),
    };
  }

  /** Which model answers, and who serves it. */
  get served(): ServedBy {
    const { id, provider } = this.#asked.model;
    return { model: id, provider };
  }

  /** Names and end of the stream, for chunks of our own. */
  get outline(): { head: StreamReader['head']; finishReason: string | null } {
    const head = this.#reader?.head ?? { id: '', created: 0, model: '' };
    return { head, finishReason: this.#reader?.finishReason ?? null };
  }

  progress(): ChatProgress {
    const usage = this.#counted();
    const { reservedMicro } = this.#parts;
    const amountMicro = this.#delivered ? Math.min(this.#priceOf(usage), reservedMicro) : 0;
    return { id: this.id, served: this.served, ...usage, amountMicro };
  }

  /**
   * The whole answer.
   * @throws GatewayError; nothing is charged then
   */
  async answer(): Promise<ChatAnswer> {
    try {
      const text = await this.#ask(({ upstream, request }) =>
        upstream.whole(request(), this.#cancellation.signal),
      );
      const answer = this.#asked.upstream.protocol.decode(parseJson(text));
      if (!answer) throw upstreamBroke(null);
      this.#meter.add(answer.written);
      this.#said = { ...answer.usage, final: answer.usage !== null };
      await this.#end('complete');
      return answer;
    } catch (error) {
      this.#cancellation.abort();
      await this.#end(this.#left ? 'left' : 'refused');
      throw this.#left ? callerLeft(error) : error;
    } finally {
      if (this.#drainTimer) {
        clearTimeout(this.#drainTimer);
        this.#parts.drains.underWay -= 1;
      }
    }
  }

  /**
   * The answer as it comes: gives the steps of each packet to `deliver`, one after the other.
   * Ends when the upstream is through.
   * @throws GatewayError when the upstream fails or breaks off, and what `deliver` throws; what was
   * delivered is charged
   */
  async stream(deliver: (steps: StreamStep[]) => Promise<void>): Promise<void> {
    let delivering = false;
    try {
      const packets = await this.#ask(({ upstream, request }) =>
        upstream.stream(request(), this.#cancellation.signal),
      );
      this.#reader = this.#asked.upstream.protocol.createReader();
      for await (const steps of readSteps(packets, this.#reader)) {
        this.#note(steps);
        delivering = true;
        await deliver(steps);
        delivering = false;
      }
      if (!this.#reader.complete) throw upstreamBroke(null);
      await this.#end('complete');
    } catch (error) {
      this.#cancellation.abort();
      await this.#end(delivering || this.#left ? 'left' : 'broken');
      throw this.#left && !delivering ? callerLeft(error) : error;
    }
  }

  /** The caller is gone: a stream is given up at once, a whole answer is awaited a little longer. */
  callerLeft(): void {
    if (this.#ended || this.#left) return;
    this.#left = true;
    const { stream, drains } = this.#parts;
    if (stream || drains.underWay >= drainsMax) {
      this.#cancellation.abort();
      return;
    }
    // The provider bills a whole answer whether it is taken or not.
    drains.underWay += 1;
    this.#drainTimer = setTimeout(() => this.#cancellation.abort(), drainMs);
  }

  /** Asks one model after the other, until one begins to answer or may have been paid for. */
  async #ask<Answer>(ask: (candidate: ChatCandidate) => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        return await ask(this.#asked);
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        this.tried.push({ model: this.#asked.model.id, error: error.code });
        const next = this.#parts.candidates[this.tried.length];
        const mayAsk = error instanceof UnpaidFailure && !this.#left;
        if (!next || !mayAsk) throw withTries(error, this.tried);
        this.#asked = next;
      }
    }
  }

  #note(steps: StreamStep[]): void {
    for (const { written } of steps) {
      if (written === '') continue;
      this.#delivered = true;
      this.#meter.add(written);
    }
  }

  /** Usage as the provider reported it, unless no request to this model can have so many tokens. */
  get #usage(): ChatAccount['said'] {
    const reported = this.#reader?.usage ?? this.#said;
    return isPossible(reported, this.#asked) ? reported : { final: false };
  }

  #counted(): TokenUsage {
    return {
      inputTokens: this.#usage.inputTokens ?? this.#asked.inputEstimate,
      outputTokens: this.#meter.tokens,
    };
  }

  #priceOf(usage: TokenUsage): number {
    return chatPriceMicro(this.#asked.model, usage, this.#parts.usdPerCredit);
  }

  /** The first end settles. Nothing is waited for, unless the reservation has to be raised. */
  async #end(end: ChatEnd): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    const { id, organizationId, reservedMicro, running, certain } = this.#parts;
    const said = { ...this.#usage };
    const account = { end, delivered: this.#delivered, said, counted: this.#counted() };
    const billing = billOf(account);
    const priceMicro = billing.to === 'charged' ? this.#priceOf(billing) : 0;
    const payableMicro =
      certain || priceMicro <= reservedMicro ? reservedMicro : await this.#raised(priceMicro);
    // What an upstream counts beyond that is our loss, and an alarm.
    const amountMicro = Math.min(priceMicro, payableMicro);
    this.#bill = { ...billing, amountMicro };
    this.#alarm(end, billing, { priceMicro, payableMicro });
    const abandoned = isAbandoned(account, this.#parts);
    const reason = abandoned ? 'chat abandoned' : `chat ${end}`;
    const { served } = this;
    running.settle(this, { organizationId, id, served, amountMicro, reason, ...billing });
    if (abandoned) this.#tellAbandoned();
  }

  #tellAbandoned(): void {
    const { inputEstimate, inputBound } = this.#asked;
    const inputTokens = this.#parts.certain ? inputEstimate : inputBound;
    this.#parts.abandon(this.#priceOf({ inputTokens, outputTokens: 0 }));
  }

  /** What can be paid once the reservation is raised; it stays as it is where that fails. */
  async #raised(priceMicro: number): Promise<number> {
    const { id, reservedMicro, raise, logger } = this.#parts;
    try {
      return Math.max(reservedMicro, await raise(priceMicro));
    } catch (error) {
      logger.warn({ error, chatId: id }, 'chat.not_raised');
      return reservedMicro;
    }
  }

  #alarm(
    end: ChatEnd,
    billing: Billing,
    { priceMicro, payableMicro }: { priceMicro: number; payableMicro: number },
  ): void {
    const { id, logger } = this.#parts;
    const { model } = this.served;
    if (end === 'broken') logger.warn({ chatId: id, model, ...billing }, 'chat.broken');
    const reported = this.#reader?.usage ?? this.#said;
    if (!isPossible(reported, this.#asked)) {
      logger.error({ chatId: id, model, reported, ...billing }, 'chat.usage_rejected');
    }
    if (priceMicro <= payableMicro) return;
    logger.error({ chatId: id, model, priceMicro, payableMicro }, 'chat.above_reservation');
  }
}

/** Checks reported usage against the limits of the model: a larger number is an error of the provider. */
function isPossible(
  { inputTokens = 0, outputTokens = 0 }: ChatAccount['said'],
  { model: { limit }, answers }: ChatCandidate,
): boolean {
  return inputTokens <= limit.context && outputTokens <= limit.output * answers;
}

function callerLeft(cause: unknown): GatewayError {
  return new GatewayError('CANCELED', 'The caller went away.', { cause });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw upstreamBroke(error);
  }
}
