/**
 * Prepares the requests to all models that may answer a chat. They are called in order; the next
 * one is called only if the previous one certainly billed nothing. One reservation covers the most
 * expensive model.
 */
import { listRows } from '../domain/book-price.ts';
import type { PricedModel } from './models.ts';
import { GatewayError } from '../domain/errors.ts';
import type { ChatBody } from './chat-body.ts';
import {
  calculateChatPrice,
  type TokenUsage,
  calculateAnswerLimit,
  buildExpectedUsage,
  estimateTokens,
  freeDivisor,
  getInputTokensMax,
  type ChatTokens,
} from './bill.ts';
import type { ReserveAmounts } from './chat-ledger.ts';
import { countMaximumTokens, type InputCount } from './input-count.ts';
import { fitToolNames } from './protocols/tool-names.ts';
import type { Upstream, Upstreams } from './upstreams.ts';

/** Encoded request to a provider. */
export interface EncodedRequest {
  body: string;
  /** Maximum possible usage of the request. If the provider reports more, its report is wrong. */
  usageMax: Required<TokenUsage>;
}

/** Model with its prepared request. */
export interface ChatCandidate {
  model: PricedModel;
  upstream: Upstream;
  /** Tokens of the request and its answer, estimated by the gateway. */
  tokens: ChatTokens;
  /** Names of the caller's tools, by the names that the provider receives. */
  callerNames: ReadonlyMap<string, string>;
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
  /** Expected output tokens of one answer. */
  answerTokensExpected: number;
}

/** Candidates whose answers are not yet limited by the reserved credits. */
export interface CandidatesDraft {
  /** Amounts of the reservation, for the most expensive model. */
  amounts: ReserveAmounts;
  /** Rows of the price book that set prices of the models. */
  priceRows: string[];
  /** Returns the model with the highest possible charge, and the usage that causes this charge. */
  findMostExpensive: () => { model: PricedModel; usageMax: EncodedRequest['usageMax'] };
  /**
   * Returns the candidates, and limits their answers to the length for which `reservedMicro`
   * micro-credits pay.
   */
  limitTo: (reservedMicro: number) => ChatCandidates;
}

/**
 * Prepares the requests to all models.
 * @throws GatewayError UNSUPPORTED_PARAMETER if a model does not support a field;
 * SERVICE_UNAVAILABLE if the gateway has no API key for the provider of a model
 */
export function createCandidatesDraft(
  [first, ...others]: readonly [PricedModel, ...PricedModel[]],
  request: SharedRequest,
  context: DraftContext,
): CandidatesDraft {
  const firstDraft = createCandidateDraft(first, request, context);
  const otherDrafts = others.map((model) => createCandidateDraft(model, request, context));
  const drafts = [firstDraft, ...otherDrafts];
  const findMaximum = (name: 'outputMin' | 'outputExpected' | 'outputMax'): number =>
    Math.max(...drafts.map(({ tokens, calculatePrice }) => calculatePrice(tokens[name])));
  return {
    amounts: {
      amountMinMicro: findMaximum('outputMin'),
      amountExpectedMicro: findMaximum('outputExpected'),
      amountMaxMicro: findMaximum('outputMax'),
      freeDivisor: request.maxTokens === null ? freeDivisor.unlimited : freeDivisor.requested,
    },
    priceRows: listRows(drafts.map(({ model }) => model.book?.row)),
    findMostExpensive() {
      const charges = drafts.map(({ model, limitTo }) => {
        const { usageMax } = limitTo(Infinity).encode();
        const micro = calculateChatPrice(model, usageMax, context.usdPerCredit);
        return { model, usageMax, micro };
      });
      return charges.reduce((a, b) => (b.micro > a.micro ? b : a));
    },
    limitTo: (reservedMicro) => [
      firstDraft.limitTo(reservedMicro),
      ...otherDrafts.map(({ limitTo }) => limitTo(reservedMicro)),
    ],
  };
}

function createCandidateDraft(
  model: PricedModel,
  { body, maxTokens, stream, input }: SharedRequest,
  { upstreams, usdPerCredit, answerTokensExpected }: DraftContext,
) {
  const upstream = upstreams.get(model);
  const { body: named, callerNames } = fitToolNames(model, body);
  const fields = upstream.protocol.encode({ model, body: named, stream });
  const tokens = estimateTokens(
    model,
    { input, maxTokens, answers: countAnswers(body) },
    answerTokensExpected,
  );
  const calculatePrice = (outputTokens: number): number =>
    calculateChatPrice(model, buildExpectedUsage(tokens, outputTokens), usdPerCredit);
  return {
    model,
    tokens,
    calculatePrice,
    limitTo: (reservedMicro: number): ChatCandidate => ({
      model,
      upstream,
      tokens,
      callerNames,
      encode() {
        const answerTokens = calculateAnswerLimit(model, { tokens, reservedMicro }, usdPerCredit);
        const requestBody = JSON.stringify(
          upstream.protocol.withTokenLimit(fields, { model, answerTokens }),
        );
        const inputTokens = Math.min(
          countMaximumTokens(requestBody, input),
          getInputTokensMax(model, tokens.answers),
        );
        return {
          body: requestBody,
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

/** Returns the number of answers that a request asks for: one vector for each input to embed. */
function countAnswers({ n = 1, embedding }: ChatBody): number {
  return embedding ? embedding.inputs.length : n;
}

/** Adds the errors of all failed models to the error of the last one. */
export function addFailedTries(failure: GatewayError, tried: readonly FailedTry[]): GatewayError {
  if (tried.length < 2) return failure;
  const { code, message, details, retryAfterSeconds, providerCode, cause } = failure;
  const extras = { details, retryAfterSeconds, providerCode, cause };
  return new GatewayError(code, message, { ...extras, body: { ...failure.body, tried } });
}
