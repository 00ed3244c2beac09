/** A tool of the MCP server, and the requests that tools send. */
import { ErrorCode, McpError, ToolSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import type { Scope } from '../identity/access.ts';
import type { OwnCall } from './own-api.ts';

/** Arguments of a tool call. */
export type Arguments = Record<string, unknown>;

/** Tool, and the API request that a call of the tool sends. */
export interface OfferedTool {
  tool: Tool;
  scope: Scope;
  call: (input: Arguments) => OwnCall;
  /** Shortens the body of a successful response, because models read all of it. */
  present?: (body: unknown) => unknown;
}

/** Makes the schema of a tool's arguments. */
export const makeInputSchema = (schema: z.ZodType): Tool['inputSchema'] => {
  const jsonSchema = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return ToolSchema.shape.inputSchema.parse({ ...jsonSchema, type: 'object' });
};

/** Highest number of characters of all arguments in a URL. */
const argumentsMax = 4000;

/** Checks that arguments fit into a URL. @throws McpError InvalidParams */
export function checkLength(input: Arguments): void {
  const texts = Object.entries(input).map(([name, value]) => ({ name, text: toText(value) }));
  const length = texts.reduce((sum, { name, text }) => sum + name.length + text.length, 0);
  if (length <= argumentsMax) return;
  const [longest] = texts.toSorted((one, other) => other.text.length - one.text.length);
  const message = `${longest?.name.slice(0, 40)}: all arguments together must be at most ${argumentsMax} characters (received ${length})`;
  throw new McpError(ErrorCode.InvalidParams, message);
}

/** Adds arguments to a path as its query. */
export function withQuery(path: string, input: Arguments): string {
  const texts = Object.entries(input).map(([name, value]): [string, string] => [
    name,
    toText(value),
  ]);
  const query = new URLSearchParams(texts).toString();
  return query === '' ? path : `${path}?${query}`;
}

/** Converts an argument to text; the endpoint rejects a value of the wrong type. */
export const toText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);
