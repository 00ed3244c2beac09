/** Adds metrics and traces to the chat ledger, to provider requests, and to the run of each chat. */
import { SpanKind, type Attributes, type Span } from '@opentelemetry/api';
import { GatewayError } from '../domain/errors.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import { asText } from '../domain/json.ts';
import {
  countReserve,
  observeLedgerOperation,
  observeSettlement,
  type Observers,
} from '../ledger/observed-ledgers.ts';
import { inSpan } from '../platform/telemetry.ts';
import { createObserve } from '../providers/observed-providers.ts';
import type { ChatLedger } from './chat-ledger.ts';
import { ChatRun, type ChatRunParts } from './chat-run.ts';
import type { StreamStep } from './protocols/protocol.ts';
import type { Upstreams } from './upstreams.ts';

/** Adds metrics and traces to the chat ledger. */
export function observeChatLedger(ledger: ChatLedger, observers: Observers): ChatLedger {
  const { metrics, settlements } = observers;
  return {
    ...ledger,
    async reserve(reserve) {
      const answer = await observeLedgerOperation('ledger.reserve', () => ledger.reserve(reserve));
      const amountMicro = answer.verdict === 'reserved' ? answer.amount : 0;
      countReserve(metrics, 'chat', { verdict: answer.verdict, amountMicro });
      return answer;
    },
    settle: (settle) => observeSettlement(observers, settle.id, () => ledger.settle(settle)),
    async sweep(terms) {
      const swept = await ledger.sweep(terms);
      for (const { id } of swept) settlements.add(id);
      return swept;
    },
  };
}

const ok = () => 'ok' as const;

/**
 * Adds metrics and traces to requests to chat providers. A streamed request is measured until its
 * response headers arrive.
 */
export function observeUpstreams(
  upstreams: Upstreams,
  observers: Pick<Observers, 'metrics'>,
): Upstreams {
  const observe = createObserve(observers);
  return {
    ...upstreams,
    get(model) {
      const upstream = upstreams.get(model);
      const labels = { provider: model.provider, verb: 'chat' } as const;
      return {
        ...upstream,
        fetchStream: (request) => observe(labels, () => upstream.fetchStream(request), ok),
        fetchText: (request) => observe(labels, () => upstream.fetchText(request), ok),
      };
    },
  };
}

/** OpenTelemetry's names for providers of generative AI, where they differ from the gateway's. */
const conventionalNames = new Map([
  ['google', 'gcp.gemini'],
  ['mistral', 'mistral_ai'],
  ['xai', 'x_ai'],
]);

/** Data of a run, and the properties of its request that its span records. */
interface RecordedRun extends ChatRunParts {
  keyId: string;
  requestId: string;
  maxTokens: number | null;
}

/** Run of a chat. Call either `answer` or `stream`, once (`ChatRun`). */
export interface AnsweringChat extends Pick<ChatRun, 'answer' | 'stream'> {
  run: ChatRun;
}

/**
 * Starts a run that records a span and metrics according to OpenTelemetry's conventions for
 * generative AI. They cover the time from the first provider request to the settlement.
 */
export function recordChat(parts: RecordedRun): AnsweringChat {
  const run = new ChatRun(parts);
  const { id: model, embedding } = parts.candidates[0].model;
  const operation = embedding ? 'embeddings' : 'chat';
  const recorded = { run, parts, model, operation } as const;
  return {
    run,
    answer: () =>
      observeRun(recorded, async (span) => {
        const answer = await run.answer();
        const { id, model: servedModel } = answer.completion;
        span.setAttributes({
          ...formatHead({ id: asText(id), model: asText(servedModel) }),
          'gen_ai.response.finish_reasons': [answer.finishReason ?? 'unknown'],
        });
        return answer;
      }),
    stream: (deliver) => observeRun(recorded, (span) => streamRecorded(run, span, deliver)),
  };
}

/** Returns the attributes of a response’s id and model; an embeddings response may have neither. */
function formatHead({ id, model }: { id: string; model: string }): Attributes {
  return {
    ...(id !== '' && { 'gen_ai.response.id': id }),
    ...(model !== '' && { 'gen_ai.response.model': model }),
  };
}

async function streamRecorded(
  run: ChatRun,
  span: Span,
  deliver: (steps: StreamStep[]) => Promise<void>,
): Promise<void> {
  const startedAtMs = performance.now();
  let hasOutput = false;
  try {
    await run.stream((steps) => {
      if (!hasOutput && steps.some(({ outputText }) => outputText !== '')) {
        hasOutput = true;
        const seconds = (performance.now() - startedAtMs) / 1000;
        span.setAttribute('gen_ai.response.time_to_first_chunk', seconds);
      }
      return deliver(steps);
    });
  } finally {
    const { head, finishReason } = run.streamMetadata;
    span.setAttributes({
      ...formatHead(head),
      'gen_ai.response.finish_reasons': [finishReason ?? 'unknown'],
    });
  }
}

interface Recorded {
  run: ChatRun;
  parts: RecordedRun;
  /** Id of the first model of the request. */
  model: string;
  /** OpenTelemetry's name of the operation. */
  operation: 'chat' | 'embeddings';
}

function observeRun<Result>(
  recorded: Recorded,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const { parts, model, operation } = recorded;
  const { id, organizationId, keyId, requestId, maxTokens, stream } = parts;
  const attributes = {
    'gen_ai.operation.name': operation,
    'gen_ai.request.model': model,
    'gen_ai.request.stream': stream,
    ...(maxTokens !== null && { 'gen_ai.request.max_tokens': maxTokens }),
    'gateway.organization.id': organizationId,
    'gateway.key.id': keyId,
    'gateway.chat.id': id,
    'request.id': requestId,
  };
  const name = `${operation} ${model}`;
  return inSpan({ name, kind: SpanKind.CLIENT, attributes }, async (span) => {
    const startedAtMs = performance.now();
    let errorType = '';
    try {
      return await work(span);
    } catch (error) {
      errorType = error instanceof GatewayError ? error.code : 'error';
      throw error;
    } finally {
      const seconds = (performance.now() - startedAtMs) / 1000;
      recordEnd(recorded, span, { errorType, seconds });
    }
  });
}

function recordEnd(
  { run, parts, model, operation }: Recorded,
  span: Span,
  { errorType, seconds }: { errorType: string; seconds: number },
): void {
  const { metrics, usdPerCredit } = parts;
  const { provider } = run.servedBy;
  const labels = {
    gen_ai_operation_name: operation,
    gen_ai_provider_name: conventionalNames.get(provider) ?? provider,
    gen_ai_request_model: model,
  };
  metrics.genAiSeconds.observe({ ...labels, error_type: errorType }, seconds);
  span.setAttribute('gen_ai.provider.name', labels.gen_ai_provider_name);
  const toUsd = (micro: number): number => creditsFromMicro(micro) * usdPerCredit;
  const { bill, unknownCostMicro } = run;
  if (unknownCostMicro !== null) {
    metrics.chatUnknownCostCalls.inc({ provider });
    metrics.chatUnknownCostUsd.inc({ provider }, toUsd(unknownCostMicro));
  }
  if (!bill) return;
  const { inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens, reasoningTokens } =
    bill.usage;
  const credits = bill.creditsConsumed ?? creditsFromMicro(bill.priceMicro);
  span.setAttributes({
    'gen_ai.usage.input_tokens': inputTokens,
    'gen_ai.usage.output_tokens': outputTokens,
    ...(cachedInputTokens && { 'gen_ai.usage.cache_read.input_tokens': cachedInputTokens }),
    ...(cacheWriteTokens && { 'gen_ai.usage.cache_creation.input_tokens': cacheWriteTokens }),
    ...(reasoningTokens && { 'gen_ai.usage.reasoning.output_tokens': reasoningTokens }),
    // OpenTelemetry defines no attribute for the price. Langfuse reads this one, in USD.
    'gen_ai.usage.cost': credits * usdPerCredit,
    'gateway.credits.charged': credits,
  });
  if (bill.priceMicro + run.costMicro === 0) return;
  metrics.genAiTokens.observe({ ...labels, gen_ai_token_type: 'input' }, inputTokens);
  metrics.genAiTokens.observe({ ...labels, gen_ai_token_type: 'output' }, outputTokens);
  metrics.chatCostUsd.inc({ provider, model: run.servedBy.model }, toUsd(run.costMicro));
}
