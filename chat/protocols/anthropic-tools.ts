/** Translates the tools of the internal request to Anthropic's tools. */
import type { JsonObject } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import { cacheControlOf } from './anthropic-content.ts';
import { unsupported } from './protocol.ts';
import { answerTool, type StructuredAnswer } from './structured-answer.ts';

/**
 * Returns the fields `tools` and `tool_choice`.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function toolsOf(
  body: ChatBody,
  { tool: answer }: StructuredAnswer,
): Record<string, unknown> {
  const tools: JsonObject[] = (body.tools ?? []).map((tool) => {
    const { name, description, parameters, strict } = tool.function;
    if (name === answerTool) throw unsupported('tools', `the name ${answerTool} is reserved`);
    return {
      name,
      ...(description !== undefined && { description }),
      input_schema: { type: 'object', ...parameters },
      ...(strict === true && { strict: true }),
      ...cacheControlOf(tool),
    };
  });
  if (answer) {
    const isOnlyTool = tools.length === 0 || body.tool_choice === 'none';
    return {
      tools: [...tools, answer],
      tool_choice: isOnlyTool
        ? { type: 'tool', name: answerTool }
        : { type: 'any', ...parallelOf(body) },
    };
  }
  const choice = toolChoiceOf(body);
  return tools.length === 0 ? {} : { tools, ...(choice && { tool_choice: choice }) };
}

function parallelOf({ parallel_tool_calls: parallel }: ChatBody): JsonObject {
  return parallel === false ? { disable_parallel_tool_use: true } : {};
}

function toolChoiceOf(body: ChatBody): JsonObject | undefined {
  const { tool_choice: choice } = body;
  const single = parallelOf(body);
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...single };
  if (typeof choice === 'object') return { type: 'tool', name: choice.function.name, ...single };
  return body.parallel_tool_calls === false ? { type: 'auto', ...single } : undefined;
}
