/**
 * Tools of OpenAI's Responses API that run at the caller, as Codex sends them. A provider receives
 * all of them as functions: a tool of a namespace under a joined name, and a custom tool, whose
 * input is any text, as a function with one text field. Calls are converted back for the caller.
 *
 * Source: the types of the `openai` client (`Tool`, `ResponseCustomToolCall`,
 * `ResponseToolSearchCall`), and requests of Codex 0.171.0.
 */
import { z } from 'zod';
import type { Tool } from '../chat-body.ts';
import { parseExact } from '../../domain/exact-numbers.ts';
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';
import { nameLengthMax, shortenName } from '../protocols/tool-names.ts';
import { textSchema, toolNameSchema, withoutNulls } from './chat-fields.ts';

/** Tool of the caller that a function stands for. Plain functions have none. */
export interface ToolForm {
  kind: 'function' | 'custom' | 'tool_search';
  name: string;
  namespace?: string;
}

/** Tools as functions, their forms by function name, and the names of the tools that are ignored. */
interface FlatTools {
  tools: Tool[];
  forms: Record<string, ToolForm>;
  ignored: string[];
}

const functionTool = z.object({
  type: z.literal('function'),
  name: toolNameSchema,
  description: textSchema.nullish(),
  parameters: anyJsonObject.nullish(),
  strict: z.boolean().nullish(),
});
const customTool = z.object({
  type: z.literal('custom'),
  name: toolNameSchema,
  description: textSchema.nullish(),
  format: z
    .object({
      type: z.enum(['text', 'grammar']),
      syntax: z.string().max(64).nullish(),
      definition: textSchema.nullish(),
    })
    .nullish(),
});
const namespaceTool = z.object({
  type: z.literal('namespace'),
  name: toolNameSchema,
  description: textSchema.nullish(),
  tools: z.array(z.discriminatedUnion('type', [functionTool, customTool])).max(512),
});
/** Search for tools that the caller loads later. */
const toolSearch = z.object({
  type: z.literal('tool_search'),
  execution: z.literal('client', 'must be client: tools that the provider runs are not supported'),
  description: textSchema.nullish(),
  parameters: anyJsonObject.nullish(),
});
/** Search on the web, which some clients offer by default. No model runs it here. */
const webSearch = z.object({
  type: z.enum([
    'web_search',
    'web_search_2025_08_26',
    'web_search_preview',
    'web_search_preview_2025_03_11',
  ]),
});
/** Types of the tools that are ignored. */
export const ignoredTools: ReadonlySet<string> = new Set(webSearch.shape.type.options);
const toolSchema = z.discriminatedUnion(
  'type',
  [functionTool, customTool, namespaceTool, toolSearch, webSearch],
  {
    error:
      'must be one of function, custom, namespace, tool_search, web_search: other tools run at the provider and are not supported',
  },
);
/** Schema of a list of tools. */
export const toolsSchema = z.array(toolSchema).max(512);
type SentTool = z.infer<typeof toolSchema>;

/** Namespace of the functions that stand outside of every namespace. */
const defaultNamespace = 'functions';
/** Returns the name of the function that stands for a tool. */
export function toFunctionName(name: string, namespace?: string | null): string {
  if (namespace == null || namespace === defaultNamespace) return name;
  const joined = `${namespace}__${name}`;
  return joined.length <= nameLengthMax ? joined : shortenName(joined);
}

/** Converts tools to functions. A tool replaces an earlier one of the same name. */
export function flattenTools(sentTools: readonly SentTool[]): FlatTools {
  const tools = new Map<string, Tool>();
  const forms: Record<string, ToolForm> = {};
  const ignored = new Set<string>();
  const add = (form: ToolForm, tool: Omit<Tool['function'], 'name'>): void => {
    const name = toFunctionName(form.name, form.namespace);
    tools.set(name, { type: 'function', function: { name, ...tool } });
    if (form.kind !== 'function' || form.namespace !== undefined) forms[name] = form;
  };
  const addTool = (tool: SentTool, namespace?: string): void => {
    switch (tool.type) {
      case 'namespace':
        for (const member of tool.tools) addTool(member, tool.name);
        break;
      case 'function': {
        const { type: kind, name, description, parameters, strict } = tool;
        const form = { kind, name, ...withoutNulls({ namespace }) };
        add(form, withoutNulls({ description, parameters, strict }));
        break;
      }
      case 'custom': {
        const form = { kind: tool.type, name: tool.name, ...withoutNulls({ namespace }) };
        add(form, { description: describeCustomTool(tool), parameters: customParameters });
        break;
      }
      case 'tool_search': {
        const { type: kind, description, parameters } = tool;
        add({ kind, name: kind }, withoutNulls({ description, parameters }));
        break;
      }
      case 'web_search':
      case 'web_search_2025_08_26':
      case 'web_search_preview':
      case 'web_search_preview_2025_03_11':
        ignored.add(`tools.${tool.type}`);
    }
  };
  for (const tool of sentTools) addTool(tool);
  return { tools: [...tools.values()], forms, ignored: [...ignored] };
}

const customParameters = {
  type: 'object',
  properties: { input: { type: 'string', description: 'The whole input of the tool, as text.' } },
  required: ['input'],
  additionalProperties: false,
};

function describeCustomTool({ description, format }: z.infer<typeof customTool>): string {
  const { type, syntax, definition } = format ?? {};
  const rule =
    type === 'grammar' && definition
      ? `The field \`input\` must match this ${syntax ?? ''} grammar:\n${definition}`
      : '';
  return [description ?? '', rule].filter((text) => text !== '').join('\n\n');
}

/** Returns the arguments of the function that stands for a custom tool. */
export const toArguments = (input: string): string => JSON.stringify({ input });

/** Returns the input of a custom tool; the arguments themselves if the model ignored the schema. */
function readInput(json: string): string {
  const fields = parseArguments(json);
  const texts = Object.values(fields).filter((value) => typeof value === 'string');
  return asText(fields['input']) || (texts.length === 1 ? asText(texts[0]) : '') || json;
}

function parseArguments(json: string): Record<string, unknown> {
  try {
    return asRecord(parseExact(json));
  } catch {
    return {};
  }
}

/** Output item or stream event of a response. */
type Fields = Record<string, unknown>;

/** Converts function calls in the output of one response to calls of the caller's tools. */
export class ToolRestorer {
  readonly #forms: Readonly<Record<string, ToolForm>>;
  /** Forms of the calls in the stream, by the id of the item. */
  readonly #formsById = new Map<unknown, ToolForm>();

  constructor(forms: Readonly<Record<string, ToolForm>> = {}) {
    this.#forms = forms;
  }

  /** Converts an output item. */
  item(item: object): object {
    const fields: Fields = { ...item };
    const form = this.#find(fields);
    if (!form) return item;
    const { id, status, call_id } = fields;
    const json = asText(fields['arguments']);
    const { kind, ...names } = form;
    if (kind === 'function') return { ...fields, ...names };
    const call = { id, type: `${kind}_call`, status, call_id };
    if (kind === 'custom') {
      return {
        ...call,
        type: 'custom_tool_call',
        ...names,
        input: json === '' ? '' : readInput(json),
      };
    }
    return { ...call, execution: 'client', arguments: parseArguments(json) };
  }

  /** Converts a stream event; an event may become none or several. */
  events<Event extends { type: string }>(event: Event): (Event | (Fields & { type: string }))[] {
    const { type, item, item_id, output_index } = { ...event } as Event & Fields;
    if (isRecord(item)) {
      const form = this.#find(item);
      if (form) this.#formsById.set(item['id'], form);
      return [{ ...event, item: this.item(item) }];
    }
    const form = this.#formsById.get(item_id);
    if (!form || form.kind === 'function' || !type.startsWith('response.function_call_arguments'))
      return [event];
    if (form.kind === 'tool_search' || !type.endsWith('.done')) return [];
    const input = readInput(asText({ ...(event as Fields) }['arguments']));
    const place = { item_id, output_index };
    return [
      { type: 'response.custom_tool_call_input.delta', ...place, delta: input },
      { type: 'response.custom_tool_call_input.done', ...place, input },
    ];
  }

  #find({ type, name }: Fields): ToolForm | undefined {
    const isCall = type === 'function_call' && typeof name === 'string';
    return isCall && Object.hasOwn(this.#forms, name) ? this.#forms[name] : undefined;
  }
}
