/**
 * Prepares the requests to all models that may answer a chat. They are called in order; the next
 * one is called only if the previous one certainly billed nothing. One reservation covers the most
 * expensive model.
 */
import type { ChatModel } from '../catalog/chat-model.ts';
import { GatewayError } from '../domain/errors.ts';
import type { ChatBody } from './chat-body.ts';
import {
  calculateAnswerLimit,
  expectedUsage,
  chatPriceMicro,
  estimateTokens,
  type ChatTokens,
  type TokenUsage,
} from './chat-price.ts';
import { inputTokensMax, type InputCount } from './input-count.ts';
import type { Upstream, Upstreams } from './upstreams.ts';

/** Encoded request to a provider. */
export interface EncodedRequest {
  body: string;
  /**
   * Maximum usage that is possible for this request. If the provider reports more, its report is
   * wrong.
   */
  usageMax: Required<TokenUsage>;
}

/** Model with its prepared request. */
export interface ChatCandidate {
  model: ChatModel;
  upstream: Upstream;
  /** Tokens as estimated by the gateway. */
  tokens: ChatTokens;
  /** Encodes the request in the provider's format. */
  encode: () => EncodedRequest;
}

/** Model that was called and failed, with its error. */
export interface FailedTry {
  model: string;
  error: GatewayError['code'];
}

/** Candidates in the order in which they are called; at least one. */
export type ChatCandidates = readonly [ChatCandidate, ...ChatCandidate[]];

/** Properties of the request that are the same for all candidates. */
interface SharedRequest {
  body: ChatBody;
  maxTokens: number | null;
  stream: boolean;
  input: InputCount;
}

interface DraftContext {
  upstreams: Upstreams;
  usdPerCredit: number;
  /** Output tokens that an answer is expected to have. */
  answerTokensExpected: number;
}

/** Candidates before credits are reserved. */
export interface CandidatesDraft {
  /**
   * Minimum amount to reserve, in micro-credits, for the most expensive model. The chat is rejected
   * if less is available.
   */
  amountMinMicro: number;
  /** Amount to reserve if the balance and the budget of the key allow it, in micro-credits. */
  amountMaxMicro: number;
  /** Returns the model with the highest possible charge, and the usage that causes this charge. */
  mostExpensive: () => { model: ChatModel; usageMax: EncodedRequest['usageMax'] };
  /**
   * Returns the candidates. Their answers are limited to the length that `payableMicro` can pay
   * for.
   */
  limitTo: (payableMicro: number) => ChatCandidates;
}

/**
 * Prepares the requests to all models.
 * @throws GatewayError UNSUPPORTED_PARAMETER if a model does not support a field;
 * SERVICE_UNAVAILABLE
 */
export function draftCandidates(
  [first, ...others]: readonly [ChatModel, ...ChatModel[]],
  request: SharedRequest,
  context: DraftContext,
): CandidatesDraft {
  const firstDraft = draftCandidate(first, request, context);
  const otherDrafts = others.map((model) => draftCandidate(model, request, context));
  const drafts = [firstDraft, ...otherDrafts];
  return {
    amountMinMicro: Math.max(...drafts.map(({ amountMinMicro }) => amountMinMicro)),
    amountMaxMicro: Math.max(...drafts.map(({ amountMaxMicro }) => amountMaxMicro)),
    mostExpensive() {
      const charges = drafts.map(({ model, limitTo }) => {
        const { usageMax } = limitTo(Infinity).encode();
        const micro = chatPriceMicro(model, usageMax, context.usdPerCredit);
        return { model, usageMax, micro };
      });
      return charges.reduce((a, b) => (b.micro > a.micro ? b : a));
    },
    limitTo: (payableMicro) => [
      firstDraft.limitTo(payableMicro),
      ...otherDrafts.map(({ limitTo }) => limitTo(payableMicro)),
    ],
  };
}

function draftCandidate(
  model: ChatModel,
  { body, maxTokens, stream, input }: SharedRequest,
  { upstreams, usdPerCredit, answerTokensExpected }: DraftContext,
) {
  const upstream = upstreams.get(model);
  const fields = upstream.protocol.encode({ model, body, stream });
  const tokens = estimateTokens(
    model,
    { input, maxTokens, answers: body.n ?? 1 },
    answerTokensExpected,
  );
  const calculatePrice = (outputTokens: number): number =>
    chatPriceMicro(model, expectedUsage(tokens, outputTokens), usdPerCredit);
  return {
    model,
    amountMinMicro: calculatePrice(tokens.outputMin),
    amountMaxMicro: calculatePrice(tokens.outputExpected),
    limitTo: (payableMicro: number): ChatCandidate => ({
      model,
      upstream,
      tokens,
      encode() {
        const answerTokens = calculateAnswerLimit(model, { tokens, payableMicro }, usdPerCredit);
        const sent = JSON.stringify(
          upstream.protocol.withTokenLimit(fields, { model, answerTokens }),
        );
        const inputTokens = Math.min(inputTokensMax(sent, input), model.limit.context);
        return {
          body: sent,
          usageMax: {
            inputTokens,
            audioInputTokens: tokens.audioInput > 0 ? inputTokens : 0,
            cachedInputTokens: 0,
            // Models that accept audio have no price for cache writes.
            cacheWriteTokens: tokens.audioInput === 0 && tokens.cacheWrite > 0 ? inputTokens : 0,
            outputTokens: answerTokens * tokens.answers,
            reasoningTokens: 0,
          },
        };
      },
    }),
  };
}

/** Adds the errors of all failed models to the error of the last one. */
export function addFailedTries(failure: GatewayError, tried: readonly FailedTry[]): GatewayError {
  if (tried.length < 2) return failure;
  const { code, message, details, retryAfterSeconds, cause } = failure;
  const extras = { details, retryAfterSeconds, cause };
  return new GatewayError(code, message, { ...extras, body: { ...failure.body, tried } });
}
