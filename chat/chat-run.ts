/**
 * Runs a chat whose credits are reserved: calls the provider, returns or streams the answer, and
 * settles the credits before the answer ends.
 */
import { listRows } from '../domain/book-price.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import { GatewayError, type ErrorCode } from '../domain/errors.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import {
  calculateBilling,
  calculateUsage,
  exceedsMaximum,
  type Billing,
  type ChatCounts,
  type ChatEnd,
  calculateChatCost,
  calculateChatPrice,
  type TokenUsage,
} from './bill.ts';
import { TextMeter } from './input-count.ts';
import type { ChatProgress, ServedBy } from './chat-ledger.ts';
import {
  addFailedTries,
  type ChatCandidate,
  type ChatCandidates,
  type FailedTry,
  type EncodedRequest,
} from './candidates.ts';
import type { AnswerReader, ChatAnswer, StreamStep } from './protocols/protocol.ts';
import type { CheckpointedChat, ChatCheckpoints } from './chat-checkpoints.ts';
import { readAnswer, readSteps } from './stream-steps.ts';
import { UnbilledFailure, providerTimeout } from './upstream-failures.ts';
import type { Upstream, UpstreamRequest } from './upstreams.ts';

/** Data and services of a run. */
export interface ChatRunParts {
  id: string;
  organizationId: string;
  candidates: ChatCandidates;
  stream: boolean;
  usdPerCredit: number;
  /** Maximum time in milliseconds for which the provider sends no output of the model. */
  answerTimeoutMs: number;
  /** Registry that records the progress of the running chat, and settles it when it ends. */
  checkpoints: Pick<ChatCheckpoints, 'add' | 'advanceCheckpoint' | 'settle'>;
  metrics: Metrics;
  logger: Logger;
}

/** Tokens that a chat used, and the credits charged for them. */
export interface ChatBill {
  usage: TokenUsage;
  /** Charged credits; null if the settlement is not confirmed in time (`ChatCheckpoints.settle`). */
  creditsConsumed: number | null;
  /** Price of the tokens in micro-credits. */
  priceMicro: number;
}

/** Run of a chat whose credits are reserved. Call either `answer` or `stream`, once. */
export class ChatRun implements CheckpointedChat {
  readonly id: string;
  /** Models that were called and failed. */
  readonly tried: FailedTry[] = [];
  readonly #parts: ChatRunParts;
  /** Model that was called most recently. */
  #candidate: ChatCandidate;
  /** Request to the model that was called most recently; null before the first call. */
  #request: EncodedRequest | null = null;
  /** True if the most recent call was sent, and the provider sent no error status. */
  #mayBeBilled = false;
  /** True if the most recent call was sent, and its failure does not exclude a bill. */
  #mayCost = false;
  /** Aborts the most recent call if the provider sends no output for too long. */
  #outputTimer: NodeJS.Timeout | undefined;
  readonly #cancellation = new AbortController();
  readonly #meter = new TextMeter();
  #reader: AnswerReader | null = null;
  readonly #startedAtMs = performance.now();
  /** Time from the start of the run to the first output of a stream. */
  #firstTokenMs: number | undefined;
  #hasDelivered = false;
  #hasCallerLeft = false;
  #hasEnded = false;
  #bill: (Billing & { amountMicro: number | null; priceMicro: number }) | null = null;
  /** Price in the catalog of what is charged, in micro-credits. */
  costMicro = 0;

  constructor(parts: ChatRunParts) {
    this.id = parts.id;
    this.#parts = parts;
    [this.#candidate] = parts.candidates;
    parts.checkpoints.add(this);
  }

  /** Bill of the chat; null until it has ended. */
  get bill(): ChatBill | null {
    if (!this.#bill) return null;
    const { to: _, countedBy: __, amountMicro, priceMicro, ...usage } = this.#bill;
    const creditsConsumed = amountMicro === null ? null : creditsFromMicro(amountMicro);
    return { usage, creditsConsumed, priceMicro };
  }

  /**
   * Price in the catalog of the input and the received output of a chat that was not charged, in micro-credits,
   * although its provider may bill it. Null for any other chat.
   */
  get unknownCostMicro(): number | null {
    const isCharged = this.#bill?.to !== 'released';
    return isCharged || !this.#mayCost ? null : this.#calculateCost(this.usage);
  }

  /** Model and provider that were called most recently. */
  get servedBy(): ServedBy {
    const { id, provider } = this.#candidate.model;
    return { model: id, provider };
  }

  /** Metadata of the stream: id, model, time of the first event, finish reason, stop sequence. */
  get streamMetadata(): Pick<AnswerReader, 'head' | 'finishReason' | 'stopSequence'> {
    const nothing = { id: '', created: 0, model: '' };
    const { head = nothing, finishReason = null, stopSequence = null } = this.#reader ?? {};
    return { head, finishReason, stopSequence };
  }

  /** Usage so far, as reported by the provider, or counted by the gateway if it reported none. */
  get usage(): TokenUsage {
    return calculateUsage(this.#counts);
  }

  progress(): Omit<ChatProgress, 'ttlMs'> {
    const { inputTokens, outputTokens } = this.usage;
    const isCharged = this.#hasDelivered || (this.#hasCallerLeft && this.#mayBeBilled);
    const amountMicro = isCharged ? this.#calculatePrice(this.usage) : 0;
    const costMicro = isCharged ? this.#calculateCost(this.usage) : 0;
    const { id, servedBy } = this;
    const { priceRows } = this;
    return { id, servedBy, inputTokens, outputTokens, amountMicro, costMicro, priceRows };
  }

  /**
   * Waits for the answer and returns it.
   * @throws GatewayError if the provider fails. Nothing is charged in this case, unless the caller
   * has disconnected.
   */
  async answer(): Promise<ChatAnswer> {
    try {
      const text = await this.#call((upstream, request) => upstream.fetchText(request));
      this.#reader = this.#createReader();
      const answer = readAnswer(text, this.#reader);
      this.#meter.add(answer.outputText);
      await this.#end('complete');
      return answer;
    } catch (error) {
      this.#cancellation.abort();
      await this.#end(this.#hasCallerLeft ? 'left' : 'failed', error);
      throw this.#hasCallerLeft ? callerLeftError(error) : error;
    }
  }

  /**
   * Streams the answer: calls `deliver` with the steps of each packet until the answer is complete,
   * and awaits each of these calls. If an error occurs, the output delivered before it is charged.
   * @throws GatewayError if the provider fails or ends its stream early
   * @throws every error that `deliver` throws
   */
  async stream(deliver: (steps: StreamStep[]) => Promise<void>): Promise<void> {
    let isDelivering = false;
    try {
      const packets = await this.#call((upstream, request) => upstream.fetchStream(request));
      this.#reader = this.#createReader();
      for await (const steps of readSteps(packets, this.#reader)) {
        this.#recordDelivery(steps);
        isDelivering = true;
        await deliver(steps);
        isDelivering = false;
      }
      await this.#end('complete');
    } catch (error) {
      this.#cancellation.abort();
      await this.#end(isDelivering || this.#hasCallerLeft ? 'left' : 'broken', error);
      throw this.#hasCallerLeft && !isDelivering ? callerLeftError(error) : error;
    }
  }

  /**
   * Handles the disconnection of the caller. Stops a streamed answer. Continues to wait for an
   * answer that is not streamed, because the provider bills it anyway, and a retry with the same
   * Idempotency-Key receives it.
   */
  handleDisconnect(): void {
    if (this.#hasEnded) return;
    this.#hasCallerLeft = true;
    if (this.#parts.stream) this.#cancellation.abort();
    else this.#parts.checkpoints.advanceCheckpoint(this);
  }

  /** Calls the models in order, until one starts to answer or fails in a way that may be billed. */
  async #call<Answer>(
    send: (upstream: Upstream, request: UpstreamRequest) => Promise<Answer>,
  ): Promise<Answer> {
    for (;;) {
      if (this.#hasCallerLeft) throw callerLeftError(null);
      try {
        const { upstream, encode } = this.#candidate;
        this.#request = encode();
        this.#awaitOutput();
        return await send(upstream, {
          body: this.#request.body,
          signal: this.#cancellation.signal,
          onSent: () => (this.#mayBeBilled = this.#mayCost = true),
          onRejected: () => (this.#mayBeBilled = false),
        });
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        if (error instanceof UnbilledFailure) this.#mayCost = false;
        this.tried.push({ model: this.#candidate.model.id, error: error.code });
        const next = this.#parts.candidates[this.tried.length];
        if (!next || !(error instanceof UnbilledFailure)) throw addFailedTries(error, this.tried);
        this.#candidate = next;
      }
    }
  }

  #createReader(): AnswerReader {
    const { model, upstream, tokens, callerNames } = this.#candidate;
    const { provider } = model;
    return upstream.protocol.createReader({ answers: tokens.answers, provider, callerNames });
  }

  /** Starts the time limit for the provider's next output. Comments and empty events do not count. */
  #awaitOutput(): void {
    clearTimeout(this.#outputTimer);
    this.#outputTimer = setTimeout(
      () => this.#cancellation.abort(providerTimeout()),
      this.#parts.answerTimeoutMs,
    );
  }

  #recordDelivery(steps: StreamStep[]): void {
    const output = steps.map(({ outputText }) => outputText).join('');
    if (output === '') return;
    this.#outputTimer?.refresh();
    if (!this.#hasDelivered) {
      this.#firstTokenMs = Math.round(performance.now() - this.#startedAtMs);
      this.#parts.checkpoints.advanceCheckpoint(this);
    }
    this.#hasDelivered = true;
    this.#meter.add(output);
  }

  /** Rows of the price book that set the price of the model: one or none. */
  get priceRows(): string[] {
    return listRows([this.#candidate.model.book?.row]);
  }

  #calculateCost(usage: TokenUsage): number {
    return calculateChatCost(this.#candidate.model, usage, this.#parts.usdPerCredit);
  }

  #calculatePrice(usage: TokenUsage): number {
    return calculateChatPrice(this.#candidate.model, usage, this.#parts.usdPerCredit);
  }

  /** Data from which the charged tokens of the chat are calculated. */
  get #counts(): ChatCounts {
    return {
      candidate: this.#candidate,
      request: this.#request,
      mayBeBilled: this.#mayBeBilled,
      hasDelivered: this.#hasDelivered,
      reported: this.#reader?.usage ?? { final: false },
      outputTokens: this.#meter.tokens,
    };
  }

  /**
   * Settles the chat, and waits until it is settled. Only the first call has an effect. `error` is the
   * reason of a failure.
   */
  async #end(end: ChatEnd, error?: unknown): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#outputTimer);
    const { id, organizationId, checkpoints } = this.#parts;
    const billing = calculateBilling(end, this.#counts);
    const isCharge = billing.to === 'charged';
    const priceMicro = isCharge ? this.#calculatePrice(billing) : 0;
    if (isCharge) this.costMicro = this.#calculateCost(billing);
    this.#logAnomalies(end, billing);
    const { servedBy, priceRows, costMicro } = this;
    const chargedMicro = await checkpoints.settle(this, {
      organizationId,
      id,
      servedBy,
      amountMicro: priceMicro,
      costMicro,
      priceRows,
      reason: `chat ${end}`,
      ...(this.#firstTokenMs !== undefined && { firstTokenMs: this.#firstTokenMs }),
      ...((end === 'failed' || end === 'broken') && { errorCode: findErrorCode(error) }),
      ...billing,
    });
    this.#bill = { ...billing, amountMicro: chargedMicro, priceMicro };
  }

  #logAnomalies(end: ChatEnd, billing: Billing): void {
    const { id, logger, metrics } = this.#parts;
    const { model, provider } = this.servedBy;
    if (end === 'broken') logger.warn({ chatId: id, model, ...billing }, 'chat.broken');
    const { reported } = this.#counts;
    if (!exceedsMaximum(this.#counts)) return;
    metrics.chatUsageCapped.inc({ provider });
    logger.error({ chatId: id, model, reported, ...billing }, 'chat.usage_capped');
  }
}

const findErrorCode = (error: unknown): ErrorCode =>
  error instanceof GatewayError ? error.code : 'Internal server error';

function callerLeftError(cause: unknown): GatewayError {
  return new GatewayError('CANCELED', 'The caller disconnected.', { cause });
}
