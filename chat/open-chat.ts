/** Chat with reserved credits: one provider call, then one settlement before the answer ends. */
import { creditsFromMicro } from '../domain/credits.ts';
import { GatewayError } from '../domain/errors.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import {
  billOf,
  usageToCharge,
  isPossible,
  reportedUsage,
  usagePriceMicro,
  type Billing,
  type ChatCounts,
  type ChatEnd,
} from './chat-bill.ts';
import type { ReportedUsage, TokenUsage } from './chat-price.ts';
import { TextMeter } from './input-count.ts';
import type { ChatProgress, ServedBy } from './chat-moves.ts';
import {
  withTries,
  type ChatCandidate,
  type ChatCandidates,
  type FailedTry,
  type SentRequest,
} from './chat-candidates.ts';
import type { ChatAnswer, StreamReader, StreamStep } from './protocols/protocol.ts';
import type { RunningChat, RunningChats } from './running-chats.ts';
import { readSteps } from './stream-steps.ts';
import { parseAnswer, UnpaidFailure, upstreamBroke } from './upstream-failures.ts';
import type { Upstream } from './upstreams.ts';

/** Parts of an open chat. */
export interface OpenChatParts {
  id: string;
  organizationId: string;
  candidates: ChatCandidates;
  stream: boolean;
  usdPerCredit: number;
  /** Registry that records the progress of the chat while it runs, and settles it at its end. */
  running: Pick<RunningChats, 'add' | 'started' | 'settle'>;
  metrics: Metrics;
  logger: Logger;
}

/** Tokens and credits that a chat was charged for. */
export interface ChatBill {
  usage: TokenUsage;
  creditsConsumed: number;
  /**
   * Price of the tokens in micro-credits; more was not charged if balance or key could not pay it.
   */
  priceMicro: number;
}

/** Chat whose credits are reserved. Exactly one of `answer` and `stream` is called, once. */
export class OpenChat implements RunningChat {
  readonly id: string;
  /** Models that did not answer. */
  readonly tried: FailedTry[] = [];
  readonly #parts: OpenChatParts;
  /** Model that was called last. */
  #candidate: ChatCandidate;
  /** Request to that model; null before the first call. */
  #sent: SentRequest | null = null;
  /** True if the provider of that model responded with a success status. */
  #accepted = false;
  readonly #cancellation = new AbortController();
  readonly #meter = new TextMeter();
  #reader: StreamReader | null = null;
  #reported: ReportedUsage = { final: false };
  #delivered = false;
  #left = false;
  #ended = false;
  #bill: (Billing & { amountMicro: number; priceMicro: number }) | null = null;

  constructor(parts: OpenChatParts) {
    this.id = parts.id;
    this.#parts = parts;
    [this.#candidate] = parts.candidates;
    parts.running.add(this);
  }

  /** Bill of the chat; null until it has ended. */
  get bill(): ChatBill | null {
    if (!this.#bill) return null;
    const { to: _, countedBy: __, amountMicro, priceMicro, ...usage } = this.#bill;
    return { usage, creditsConsumed: creditsFromMicro(amountMicro), priceMicro };
  }

  /** Model and provider that were called last. */
  get served(): ServedBy {
    const { id, provider } = this.#candidate.model;
    return { model: id, provider };
  }

  /** Start and end of the stream. */
  get outline(): Pick<StreamReader, 'head' | 'finishReason' | 'stopSequence'> {
    const nothing = { id: '', created: 0, model: '' };
    const { head = nothing, finishReason = null, stopSequence = null } = this.#reader ?? {};
    return { head, finishReason, stopSequence };
  }

  /** Usage so far: the usage that the provider reported, otherwise the gateway's own count. */
  get usage(): TokenUsage {
    const { final: _, ...reported } = reportedUsage(this.#counts);
    return { ...reported, ...usageToCharge(this.#counts) };
  }

  progress(): Omit<ChatProgress, 'ttlMs'> {
    const usage = usageToCharge(this.#counts);
    const amountMicro = this.#delivered ? this.#priceOf(usage) : 0;
    return { id: this.id, served: this.served, ...usage, amountMicro };
  }

  /**
   * Returns the whole answer.
   * @throws GatewayError if the provider fails; nothing is charged in this case
   */
  async answer(): Promise<ChatAnswer> {
    try {
      const text = await this.#call(({ upstream, request }) =>
        upstream.whole(request, this.#cancellation.signal),
      );
      const answer = this.#candidate.upstream.protocol.decode(parseAnswer(text));
      if (!answer) throw upstreamBroke(null);
      this.#meter.add(answer.written);
      this.#reported = { ...answer.usage, final: answer.usage !== null };
      await this.#end('complete');
      return answer;
    } catch (error) {
      this.#cancellation.abort();
      await this.#end('refused');
      throw this.#left ? callerLeft(error) : error;
    }
  }

  /**
   * Streams the answer: passes the steps of each packet to `deliver`, one after the other, until
   * the answer is complete.
   * @throws GatewayError if the provider fails or ends its stream early, and errors of `deliver`;
   * delivered output is charged
   */
  async stream(deliver: (steps: StreamStep[]) => Promise<void>): Promise<void> {
    let delivering = false;
    try {
      const packets = await this.#call(({ upstream, request }) =>
        upstream.stream(request, this.#cancellation.signal),
      );
      const { upstream, tokens } = this.#candidate;
      this.#reader = upstream.protocol.createReader(tokens.answers);
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

  /**
   * Ends the chat because the caller disconnected. A whole answer that a provider is already
   * writing is awaited: the provider bills it in any case, and a retry with the same
   * Idempotency-Key receives it.
   */
  callerLeft(): void {
    if (this.#ended) return;
    this.#left = true;
    if (this.#parts.stream) this.#cancellation.abort();
  }

  /** Calls one model after the other, until one begins to answer or may bill the call. */
  async #call<Answer>(
    send: (call: { upstream: Upstream; request: string }) => Promise<Answer>,
  ): Promise<Answer> {
    for (;;) {
      if (this.#left) throw callerLeft(null);
      try {
        const { upstream, request } = this.#candidate;
        this.#sent = request();
        const answer = await send({ upstream, request: this.#sent.body });
        this.#accepted = true;
        return answer;
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        this.tried.push({ model: this.#candidate.model.id, error: error.code });
        const next = this.#parts.candidates[this.tried.length];
        if (!next || !(error instanceof UnpaidFailure)) throw withTries(error, this.tried);
        this.#candidate = next;
      }
    }
  }

  #note(steps: StreamStep[]): void {
    for (const { written } of steps) {
      if (written === '') continue;
      if (!this.#delivered) this.#parts.running.started(this);
      this.#delivered = true;
      this.#meter.add(written);
    }
  }

  #priceOf(usage: TokenUsage): number {
    return usagePriceMicro(this.#counts, usage, this.#parts.usdPerCredit);
  }

  /** Facts from which the usage is counted. */
  get #counts(): ChatCounts {
    return {
      candidate: this.#candidate,
      sent: this.#sent,
      accepted: this.#accepted,
      delivered: this.#delivered,
      reported: this.#reader?.usage ?? this.#reported,
      outputTokens: this.#meter.tokens,
    };
  }

  /** Settles the chat when it first ends, and waits for the first attempt to settle. */
  async #end(end: ChatEnd): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    const { id, organizationId, running } = this.#parts;
    const billing = billOf(end, this.#counts);
    const priceMicro = billing.to === 'charged' ? this.#priceOf(billing) : 0;
    this.#warn(end, billing);
    const { served } = this;
    const chargedMicro = await running.settle(this, {
      organizationId,
      id,
      served,
      amountMicro: priceMicro,
      reason: `chat ${end}`,
      ...billing,
    });
    this.#bill = { ...billing, amountMicro: chargedMicro, priceMicro };
    if (chargedMicro < priceMicro) {
      const { logger } = this.#parts;
      logger.error({ chatId: id, model: served.model, priceMicro, chargedMicro }, 'chat.loss');
    }
  }

  #warn(end: ChatEnd, billing: Billing): void {
    const { id, logger, metrics } = this.#parts;
    const { model, provider } = this.served;
    if (end === 'broken') logger.warn({ chatId: id, model, ...billing }, 'chat.broken');
    const { reported } = this.#counts;
    if (isPossible(this.#counts)) return;
    metrics.chatUsageRejected.inc({ provider });
    logger.error({ chatId: id, model, reported, ...billing }, 'chat.usage_rejected');
  }
}

function callerLeft(cause: unknown): GatewayError {
  return new GatewayError('CANCELED', 'The caller went away.', { cause });
}
