/** Translates chat messages to OpenAI's chat completions, as each provider requires it. */
import type { ChatModel } from '../../catalog/chat-model.ts';
import type { ChatMessage, ContentPart, ToolCall } from '../chat-body.ts';
import { getDialect } from './openai-dialects.ts';
import { unsupportedField } from './protocol.ts';

/** Translates the messages of a chat to messages of OpenAI's chat completions. */
export function toMessages(model: ChatModel, messages: readonly ChatMessage[]): unknown[] {
  const sentMessages: unknown[] = [];
  let pictures: unknown[] = [];
  /** Adds pictures of tool results as a user message, because a tool result contains only text. */
  const addPictures = (): void => {
    if (pictures.length > 0) sentMessages.push({ role: 'user', content: pictures });
    pictures = [];
  };
  for (const [index, message] of messages.entries()) {
    const { content } = message;
    const parts = Array.isArray(content) ? content : [];
    const path = `messages.${index}.content`;
    if (message.role === 'tool') {
      const images = parts.filter(({ type }) => type === 'image_url');
      pictures.push(...images.map((image) => toPart(image, path)));
      sentMessages.push(toToolResult(message));
    } else {
      addPictures();
      const convertedContent = Array.isArray(content)
        ? parts.map((part) => toPart(part, path))
        : content;
      sentMessages.push(toMessage(model, message, convertedContent));
    }
  }
  addPictures();
  return sentMessages;
}

function toToolResult({ content, tool_call_id, is_error: isError }: ChatMessage): unknown {
  const parts = Array.isArray(content) ? content : [];
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  const result = Array.isArray(content) ? text : (content ?? '');
  return { role: 'tool', tool_call_id, content: isError ? `Error: ${result}` : result };
}

function toPart(partWithMarker: ContentPart, path: string): unknown {
  const { cache_control: _, ...part } = partWithMarker;
  if (part.type === 'file' && part.file.file_url !== undefined) {
    throw unsupportedField(path, 'this model accepts documents only as data, not by URL');
  }
  return part;
}

function toMessage(model: ChatModel, message: ChatMessage, content: unknown): unknown {
  const { role, name, refusal, tool_calls: calls, extra_content: extra } = message;
  const { reasoning, hasSignatures } = getDialect(model);
  const thoughts = message.reasoning_content ?? (reasoning === 'required' ? '' : undefined);
  const isReasoningSent = role === 'assistant' && model.reasoning && reasoning !== 'dropped';
  // JSON omits undefined fields.
  return {
    role,
    content,
    name,
    refusal,
    tool_calls: calls?.map((call, index) => toToolCall(model, call, index)),
    extra_content: hasSignatures ? extra : undefined,
    reasoning_content: isReasoningSent ? thoughts : undefined,
  };
}

/**
 * Placeholder that Google documents for tool calls without a thought signature: tool calls by
 * another model, and tool calls whose signature a client has dropped. Gemini 3 and later models
 * reject a message whose first call has no signature.
 */
const placeholderSignature = { google: { thought_signature: 'skip_thought_signature_validator' } };

function toToolCall(model: ChatModel, call: ToolCall, index: number): unknown {
  const { extra_content: extra, cache_control: _, ...fields } = call;
  if (!getDialect(model).hasSignatures) return fields;
  const isNeeded = index === 0 && !model.upstreamModel.startsWith('gemini-2');
  const content = extra ?? (isNeeded ? placeholderSignature : null);
  return content ? { ...fields, extra_content: content } : fields;
}
