/** Estimates the tokens of a chat, the credits it reserves, and the length of answer they allow. */
import { selectChatPrice, type ChatModel } from './model.ts';
import { calculateChatPrice, type TokenUsage } from './price.ts';
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

/**
 * Numbers by which the free credits are divided: a chat reserves at most that part of them. With
 * `max_tokens` it may take half, because the caller asks for that length. Without, nearly all
 * answers are much shorter than the model's limit, so it takes an eighth: with 1,000 credits, 26
 * chats of claude-opus-5 run at once, and the first answer may have 49,000 tokens.
 */
export const freeDivisor = { requested: 2, unlimited: 8 };

/** Minimum output tokens that the balance must cover for a request without `max_tokens`. */
const outputTokensMin = 16;

/**
 * Estimates the tokens of a request. An answer without `max_tokens` may be as long as the model and
 * the balance allow.
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
  const shortest = maxTokens === null ? Math.min(outputTokensMin, expected) : expected;
  return {
    input: inputTokens,
    audioInput: Math.min(request.input.audioTokens, inputTokens),
    cacheWrite: request.input.writesCache ? inputTokens : 0,
    outputExpected: expected * answers,
    outputMax: answerMax * answers,
    outputMin: shortest * answers,
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

/** Calculates the most tokens of each answer for which `reservedMicro` pays. */
export function calculateAnswerLimit(
  model: ChatModel,
  { tokens, reservedMicro }: { tokens: ChatTokens; reservedMicro: number },
  usdPerCredit: number,
): number {
  const calculatePrice = (outputTokens: number): number =>
    calculateChatPrice(model, buildExpectedUsage(tokens, outputTokens), usdPerCredit);
  if (calculatePrice(tokens.outputMax) <= reservedMicro) {
    return Math.floor(tokens.outputMax / tokens.answers);
  }
  const tokenMicro = selectChatPrice(model.cost, tokens.input).outputUsdPerMillion / usdPerCredit;
  // Prices are rounded up, so one token more than the quotient may be paid too.
  const quotient = Math.floor((reservedMicro - calculatePrice(0)) / tokenMicro);
  const affordable = quotient + (calculatePrice(quotient + 1) <= reservedMicro ? 1 : 0);
  return Math.floor(Math.max(tokens.outputMin, affordable) / tokens.answers);
}
