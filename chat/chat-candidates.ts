/**
 * Models that may answer a chat, in the order in which they are called: the next one is called only
 * if the previous one billed nothing. One reservation covers the most expensive of them.
 */
import type { ChatModel } from '../catalog/chat-model.ts';
import { GatewayError } from '../domain/errors.ts';
import type { ChatBody } from './chat-body.ts';
import {
  affordableAnswer,
  expectedUsage,
  chatPriceMicro,
  tokensOf,
  type ChatTokens,
  type TokenUsage,
} from './chat-price.ts';
import { inputTokensMax, type InputCount } from './input-count.ts';
import type { Upstream, Upstreams } from './upstreams.ts';

/** Request that is sent to a provider. */
export interface SentRequest {
  body: string;
  /**
   * Highest numbers of tokens that the provider may report for this request; a higher report is an
   * error of the provider.
   */
  usageMax: Required<TokenUsage>;
}

/** Model with its prepared request. */
export interface ChatCandidate {
  model: ChatModel;
  upstream: Upstream;
  /** Tokens that the gateway itself has counted. */
  tokens: ChatTokens;
  /** Encodes the request in the provider's format. */
  request: () => SentRequest;
}

/** Model that did not answer, and the error. */
export interface FailedTry {
  model: string;
  error: GatewayError['code'];
}

/** Candidates in the order in which they are called. */
export type ChatCandidates = readonly [ChatCandidate, ...ChatCandidate[]];

/** Properties of the chat that all candidates share. */
interface RequestFacts {
  body: ChatBody;
  maxTokens: number | null;
  stream: boolean;
  input: InputCount;
}

interface DraftContext {
  upstreams: Upstreams;
  usdPerCredit: number;
  /** Expected number of output tokens of an answer. */
  answerTokensExpected: number;
}

/** Candidates before credits are reserved. */
export interface CandidatesDraft {
  /**
   * Lowest and highest amount to reserve, in micro-credits, for the most expensive model. The
   * highest amount is reserved if the balance allows it.
   */
  amountMinMicro: number;
  amountMaxMicro: number;
  /** Returns the model with the highest possible charge, and its highest numbers of tokens. */
  dearest: () => { model: ChatModel; usageMax: SentRequest['usageMax'] };
  /**
   * Returns the candidates; the length of their answers is limited so that the chat costs at most
   * `payableMicro`.
   */
  grant: (payableMicro: number) => ChatCandidates;
}

/**
 * Prepares the requests of all models.
 * @throws GatewayError UNSUPPORTED_PARAMETER naming the field that a model does not support,
 * SERVICE_UNAVAILABLE
 */
export function draftCandidates(
  [first, ...others]: readonly [ChatModel, ...ChatModel[]],
  facts: RequestFacts,
  context: DraftContext,
): CandidatesDraft {
  const head = draftOf(first, facts, context);
  const tail = others.map((model) => draftOf(model, facts, context));
  const drafts = [head, ...tail];
  return {
    amountMinMicro: Math.max(...drafts.map(({ amountMinMicro }) => amountMinMicro)),
    amountMaxMicro: Math.max(...drafts.map(({ amountMaxMicro }) => amountMaxMicro)),
    dearest() {
      const most = drafts.map(({ model, grant }) => {
        const { usageMax } = grant(Infinity).request();
        const micro = chatPriceMicro(model, usageMax, context.usdPerCredit);
        return { model, usageMax, micro };
      });
      return most.reduce((a, b) => (b.micro > a.micro ? b : a));
    },
    grant: (payableMicro) => [
      head.grant(payableMicro),
      ...tail.map(({ grant }) => grant(payableMicro)),
    ],
  };
}

function draftOf(
  model: ChatModel,
  { body, maxTokens, stream, input }: RequestFacts,
  { upstreams, usdPerCredit, answerTokensExpected }: DraftContext,
) {
  const upstream = upstreams.of(model);
  const fields = upstream.protocol.encode({ model, body, stream });
  const tokens = tokensOf(model, { input, maxTokens, answers: body.n ?? 1 }, answerTokensExpected);
  const priceOf = (outputTokens: number): number =>
    chatPriceMicro(model, expectedUsage(tokens, outputTokens), usdPerCredit);
  return {
    model,
    amountMinMicro: priceOf(tokens.outputMin),
    amountMaxMicro: priceOf(tokens.outputExpected),
    grant: (payableMicro: number): ChatCandidate => ({
      model,
      upstream,
      tokens,
      request() {
        const answerTokens = affordableAnswer(model, { tokens, payableMicro }, usdPerCredit);
        const sent = JSON.stringify(upstream.protocol.bounded(fields, { model, answerTokens }));
        const inputTokens = Math.min(inputTokensMax(sent, input), model.limit.context);
        return {
          body: sent,
          usageMax: {
            inputTokens,
            audioInputTokens: tokens.audioInput > 0 ? inputTokens : 0,
            cachedInputTokens: 0,
            // No model that accepts audio has a price for writes to its cache.
            cacheWriteTokens: tokens.audioInput === 0 && tokens.cacheWrite > 0 ? inputTokens : 0,
            outputTokens: answerTokens * tokens.answers,
            reasoningTokens: 0,
          },
        };
      },
    }),
  };
}

/** Adds the errors of all models that were tried to the error of the last one. */
export function withTries(failure: GatewayError, tried: readonly FailedTry[]): GatewayError {
  if (tried.length < 2) return failure;
  const { code, message, details, retryAfterSeconds, cause } = failure;
  const extras = { details, retryAfterSeconds, cause };
  return new GatewayError(code, message, { ...extras, body: { ...failure.body, tried } });
}
