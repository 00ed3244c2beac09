/** Estimates the tokens of a chat, and the length of the answer that its credits allow. */
import { selectChatPrice, type ChatModel } from '../catalog/chat-model.ts';
import { calculateChatPrice, type TokenUsage } from './chat-price.ts';
import type { InputCount } from './input-count.ts';

/** Estimated tokens of a request before it is sent. */
export interface ChatTokens {
  /** Input tokens as estimated by the gateway. */
  input: number;
  /** Audio tokens among the input tokens. */
  audioInput: number;
  /** Input tokens that may be written to the prompt cache; 0 if the request does not enable it. */
  cacheWrite: number;
  /** Expected output tokens of all answers together. */
  outputExpected: number;
  /** Maximum output tokens of all answers together. */
  outputMax: number;
  /** Minimum output tokens that the balance must cover; otherwise the chat is rejected. */
  outputMin: number;
  answers: number;
}

/** Minimum output tokens that the balance must cover for a request without `max_tokens`. */
const outputTokensMin = 16;

/**
 * Estimates the tokens of a request. Without `max_tokens` an answer may be as long as the model and
 * the balance allow, so credits are reserved only for the expected length.
 */
export function estimateTokens(
  model: ChatModel,
  request: { input: InputCount; maxTokens: number | null; answers: number },
  answerTokensExpected: number,
): ChatTokens {
  const { limit } = model;
  const { answers, maxTokens } = request;
  const inputTokens = Math.min(request.input.tokens, getInputTokensMax(model, answers));
  // The context of many models contains both the input and the answer.
  const answerRoom = Math.max(limit.context - inputTokens, Math.min(limit.output, 1024));
  const answerMax = Math.min(limit.output, maxTokens ?? answerRoom);
  const expected = Math.min(answerMax, answerTokensExpected);
  const payable = maxTokens === null ? Math.min(outputTokensMin, expected) : expected;
  return {
    input: inputTokens,
    audioInput: Math.min(request.input.audioTokens, inputTokens),
    cacheWrite: request.input.writesCache ? inputTokens : 0,
    outputExpected: expected * answers,
    outputMax: answerMax * answers,
    outputMin: payable * answers,
    answers,
  };
}

/** Returns the maximum input tokens of a request. Each input to embed may fill the context. */
export function getInputTokensMax({ limit, embedding }: ChatModel, answers: number): number {
  return limit.context * (embedding ? answers : 1);
}

/** Returns the expected usage of a request whose answer has this many output tokens. */
export function buildExpectedUsage(tokens: ChatTokens, outputTokens: number): TokenUsage {
  const { input: inputTokens, audioInput: audioInputTokens, cacheWrite } = tokens;
  return {
    inputTokens,
    audioInputTokens,
    cacheWriteTokens: Math.min(cacheWrite, inputTokens - audioInputTokens),
    outputTokens,
  };
}

/** Calculates how many tokens each answer may have if the chat costs at most `payableMicro`. */
export function calculateAnswerLimit(
  model: ChatModel,
  { tokens, payableMicro }: { tokens: ChatTokens; payableMicro: number },
  usdPerCredit: number,
): number {
  const inputMicro = calculateChatPrice(model, buildExpectedUsage(tokens, 0), usdPerCredit);
  const tokenMicro = selectChatPrice(model.cost, tokens.input).outputUsdPerMillion / usdPerCredit;
  const affordable =
    tokenMicro > 0 ? Math.floor((payableMicro - inputMicro) / tokenMicro) : Infinity;
  const output = Math.max(tokens.outputMin, Math.min(affordable, tokens.outputMax));
  return Math.floor(output / tokens.answers);
}
