/** Translates the tools of the internal request to Anthropic's tools. */
import type { JsonObject } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import { copyCacheControl } from './anthropic-content.ts';
import { unsupportedField } from './protocol.ts';
import { answerTool, type StructuredAnswer } from './structured-answer.ts';

/**
 * Returns the fields `tools` and `tool_choice`.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function toTools(
  body: ChatBody,
  { tool: answer }: StructuredAnswer,
): Record<string, unknown> {
  const tools: JsonObject[] = (body.tools ?? []).map((tool) => {
    const { name, description, parameters, strict } = tool.function;
    if (name === answerTool) throw unsupportedField('tools', `the name ${answerTool} is reserved`);
    return {
      name,
      ...(description !== undefined && { description }),
      input_schema: { type: 'object', ...parameters },
      ...(strict === true && { strict: true }),
      ...copyCacheControl(tool),
    };
  });
  if (answer) {
    const isOnlyTool = tools.length === 0 || body.tool_choice === 'none';
    return {
      tools: [...tools, answer],
      tool_choice: isOnlyTool
        ? { type: 'tool', name: answerTool }
        : { type: 'any', ...toParallelSetting(body) },
    };
  }
  const choice = toToolChoice(body);
  return tools.length === 0 ? {} : { tools, ...(choice && { tool_choice: choice }) };
}

function toParallelSetting({ parallel_tool_calls: parallel }: ChatBody): JsonObject {
  return parallel === false ? { disable_parallel_tool_use: true } : {};
}

function toToolChoice(body: ChatBody): JsonObject | undefined {
  const { tool_choice: choice } = body;
  const parallelSetting = toParallelSetting(body);
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...parallelSetting };
  if (typeof choice === 'object')
    return { type: 'tool', name: choice.function.name, ...parallelSetting };
  return body.parallel_tool_calls === false ? { type: 'auto', ...parallelSetting } : undefined;
}
