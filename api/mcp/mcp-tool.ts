/** Definition of an MCP tool, and functions that convert tool arguments to API requests. */
import { ErrorCode, McpError, ToolSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { isRecord } from '../../domain/json.ts';
import type { Scope } from '../../identity/access.ts';
import type { ApiRequest } from './own-api-client.ts';

/** Arguments of a tool call. */
export type Arguments = Record<string, unknown>;

/** MCP tool, with the function that builds the API request for a call of the tool. */
export interface McpTool {
  tool: Tool;
  /** Scope that the caller's key needs. */
  scope: Scope;
  /** Builds the API request for the arguments of a call. */
  toApiRequest: (input: Arguments) => ApiRequest;
  /** Shortens the body of a successful response, because language models read all of it. */
  present?: (body: unknown) => unknown;
}

/** Converts a zod schema to the JSON schema of a tool's arguments. */
export const toInputSchema = (schema: z.ZodType): Tool['inputSchema'] => {
  const jsonSchema = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return ToolSchema.shape.inputSchema.parse({ ...jsonSchema, type: 'object' });
};

/** Maximum total length of arguments that are sent in a URL, in characters. */
const urlArgumentsMax = 4000;

/** Checks that arguments fit into a URL. @throws McpError InvalidParams */
export function checkLength(input: Arguments): void {
  const texts = Object.entries(input).map(([name, value]) => ({ name, text: toText(value) }));
  const length = texts.reduce((sum, { name, text }) => sum + name.length + text.length, 0);
  if (length <= urlArgumentsMax) return;
  const [longest] = texts.toSorted((one, other) => other.text.length - one.text.length);
  const message = `The arguments must have at most ${urlArgumentsMax} characters in total (received ${length}; the longest is ${longest?.name.slice(0, 40)}).`;
  throw new McpError(ErrorCode.InvalidParams, message);
}

/** Appends arguments to a path as its query string; fields of an object as `name[field]`. */
export function appendQuery(path: string, input: Arguments): string {
  const texts = Object.entries(input).flatMap(([name, value]): [string, string][] =>
    isRecord(value)
      ? Object.entries(value).map(([field, part]) => [`${name}[${field}]`, toText(part)])
      : [[name, toText(value)]],
  );
  const query = new URLSearchParams(texts).toString();
  return query === '' ? path : `${path}?${query}`;
}

/** Converts an argument to text; the endpoint rejects a value of the wrong type. */
export const toText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);
