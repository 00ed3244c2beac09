/** Formats chats as responses and stream events of OpenAI's Responses API. */
import { readBlocks, toReasoningDetail } from '../../chat/answer-blocks.ts';
import type { AnswerBlock } from '../../chat/chat-body.ts';
import type { ChatBill } from '../../chat/open-chat.ts';
import { isRecord } from '../../domain/json.ts';
import { toOpenaiCode, formatOpenaiError } from '../http/error-bodies.ts';
import { formatTried, type Presentation, type ChatContext } from './chat-presentation.ts';
import { readFirstMessage } from './first-choice.ts';
import { ResponseItems, type ResponseEvent } from './response-items.ts';

/** Names of the reasons for an incomplete response in the Responses API, keyed by finish reason. */
const incompleteReasons: Readonly<Record<string, string>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
};

function toResponseStatus(finishReason: string | null): 'completed' | 'incomplete' {
  return incompleteReasons[finishReason ?? ''] === undefined ? 'completed' : 'incomplete';
}

/** Formats usage. Cached and reasoning tokens are 0 if the provider does not report them. */
function formatUsage({ usage }: ChatBill): object {
  const { inputTokens, outputTokens, cachedInputTokens = 0, reasoningTokens = 0 } = usage;
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cachedInputTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  };
}

/** Returns the response fields that repeat fields of the request. */
function formatSettings({ body, maxTokens, metadata }: ChatContext['request']): object {
  const { tools = [], tool_choice: choice = 'auto', response_format: format } = body;
  return {
    instructions: null,
    max_output_tokens: maxTokens,
    metadata: metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    reasoning: { effort: body.reasoning_effort ?? null, summary: null },
    temperature: body.temperature ?? null,
    text: {
      format: formatTextFormat(format),
      ...(body.verbosity && { verbosity: body.verbosity }),
    },
    tool_choice: typeof choice === 'string' ? choice : { type: 'function', ...choice.function },
    tools: tools.map(({ type, function: { parameters = null, strict = null, ...tool } }) => ({
      type,
      ...tool,
      parameters,
      strict,
    })),
    top_p: body.top_p ?? null,
  };
}

function formatTextFormat(format: ChatContext['request']['body']['response_format']): object {
  if (!format) return { type: 'text' };
  const { type, json_schema: schema } = format;
  return { type, ...(isRecord(schema) && schema) };
}

function formatResponse({ chat, request }: ChatContext, createdAt: number, state: object): object {
  return {
    id: chat.id,
    object: 'response',
    created_at: createdAt,
    background: false,
    error: null,
    incomplete_details: null,
    model: chat.servedBy.model,
    previous_response_id: null,
    service_tier: 'default',
    store: false,
    truncation: 'disabled',
    usage: null,
    ...formatSettings(request),
    ...state,
  };
}

/** Returns the fields of a response that has ended. */
function formatEnd(
  { chat }: ChatContext,
  end: { finishReason: string | null; bill: ChatBill; items: ResponseItems },
): object {
  const status = toResponseStatus(end.finishReason);
  const reason = incompleteReasons[end.finishReason ?? ''];
  return {
    status,
    incomplete_details: reason === undefined ? null : { reason },
    output: end.items.output(status),
    usage: formatUsage(end.bill),
    creditsConsumed: end.bill.creditsConsumed,
    ...formatTried(chat),
  };
}

/** Splits a whole completion into chunks of one block each, in the order of the blocks. */
function splitCompletion(completion: unknown): object[] {
  return readBlocks(readFirstMessage(completion)).map((block, index) => ({
    choices: [{ index: 0, delta: toDelta(block, index) }],
  }));
}

function toDelta(block: AnswerBlock, index: number): object {
  switch (block.type) {
    case 'text':
      return { content: block.text };
    case 'refusal':
      return { refusal: block.refusal };
    case 'thought':
      return { reasoning_details: [toReasoningDetail(block)] };
    case 'function':
      break;
  }
  return { tool_calls: [{ index, ...block }] };
}

/** Creates the presentation of one chat. It keeps the output items of the stream. */
export function createResponsesPresentation(): Presentation {
  const createdAt = Math.floor(Date.now() / 1000);
  let items: ResponseItems | null = null;
  let sequenceNumber = 0;

  const formatEvent = ({ type, ...fields }: ResponseEvent): string => {
    const data = { type, sequence_number: sequenceNumber, ...fields };
    sequenceNumber += 1;
    return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
  };
  /** Returns the output items, and at the first call also the events that start the stream. */
  const start = (context: ChatContext): { items: ResponseItems; text: string } => {
    if (items) return { items, text: '' };
    items = new ResponseItems(context.chat.id);
    const response = formatResponse(context, createdAt, { status: 'in_progress', output: [] });
    const created = formatEvent({ type: 'response.created', response });
    return { items, text: created + formatEvent({ type: 'response.in_progress', response }) };
  };

  return {
    body(context, { completion, finishReason }, bill) {
      const responseItems = new ResponseItems(context.chat.id);
      for (const chunk of splitCompletion(completion)) responseItems.add(chunk);
      const end = formatEnd(context, { finishReason, bill, items: responseItems });
      return JSON.stringify(formatResponse(context, createdAt, end));
    },
    steps(context, steps) {
      const { items: outputItems, text: startText } = start(context);
      const events = steps.flatMap(({ chunk }) => (chunk ? outputItems.add(chunk) : []));
      return startText + events.map(formatEvent).join('');
    },
    end(context, bill) {
      const { items: outputItems, text: startText } = start(context);
      const { finishReason } = context.chat.streamMetadata;
      const status = toResponseStatus(finishReason);
      const end = formatEnd(context, { finishReason, bill, items: outputItems });
      const response = formatResponse(context, createdAt, end);
      const events = [...outputItems.end(status), { type: `response.${status}`, response }];
      return startText + events.map(formatEvent).join('');
    },
    failure({ requestId }, error, bill) {
      const body = formatOpenaiError(error, requestId);
      return formatEvent({
        ...body,
        type: 'error',
        code: toOpenaiCode(error),
        param: error.details?.[0]?.path ?? null,
        ...(bill && { creditsConsumed: bill.creditsConsumed }),
      });
    },
  };
}
