/**
 * Every form in which a client requests reasoning, with models of every kind: the form takes effect,
 * is ignored by name, or is rejected by the name of the sent field. The sandbox's rules of the
 * providers check what is sent.
 */
import { expect, it } from 'vitest';
import {
  chatRequestSchema,
  completionsRequestSchema,
} from '../../chat/formats/completions-request.ts';
import { messagesRequestSchema } from '../../chat/formats/messages-request.ts';
import { responsesRequestSchema } from '../../chat/formats/responses-request.ts';
import type { ChatRequest } from '../../chat/formats/chat-fields.ts';
import { chatModels, type ChatModel } from '../../chat/models.ts';
import { anthropicProtocol, openaiProtocol } from '../../chat/protocols/chat-protocols.ts';
import { listIgnoredReasoning } from '../../chat/protocols/reasoning-options.ts';
import { assert, GatewayError } from '../../domain/errors.ts';
import { readAnthropic } from '../../dev/sandbox/chat/anthropic-chat.ts';
import { readOpenai } from '../../dev/sandbox/chat/openai-chat.ts';
import { PromptCache } from '../../dev/sandbox/chat/prompt-cache.ts';
import { say } from './chat-clients.ts';

function findModel(id: string): ChatModel {
  const model = chatModels.find((one) => one.id === id);
  assert(model, `the catalog has no ${id}`);
  return model;
}

const sentFields = ['reasoning_effort', 'thinking', 'reasoning', 'output_config'];

/** Returns the reasoning fields that the provider receives, with the ignored fields or the rejected one. */
function send(model: ChatModel, { body }: ChatRequest): string {
  const protocol = { openai: openaiProtocol, anthropic: anthropicProtocol }[model.protocol];
  try {
    const call = { model, body, stream: false };
    const limit = { model, answerTokens: 20_000 };
    const sent = protocol.withTokenLimit(protocol.encode(call), limit);
    const wire: unknown = JSON.parse(JSON.stringify(sent));
    const read = { openai: readOpenai, anthropic: readAnthropic }[model.protocol];
    expect(read(wire, new PromptCache()), `${model.id} takes it`).not.toBeTypeOf('string');
    const fields = sentFields.flatMap((name) =>
      sent[name] ? [formatField(name, sent[name])] : [],
    );
    const ignored = listIgnoredReasoning(model, body).map((name) => `ignored ${name}`);
    return [...fields, ...ignored].join(', ');
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return `400 ${error.details?.[0]?.path}`;
  }
}

/** Formats a field of a request in few words. */
function formatField(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  const values = Object.entries(value ?? {}).filter(([field]) => field !== 'display');
  return `${name === 'output_config' ? '' : `${name} `}${values.map(([, field]) => String(field)).join(' ')}`;
}

const models = [
  'gpt-4.1-mini',
  'gpt-5-mini',
  'gpt-5.4',
  'gemini-3.8-flash',
  'glm-5.2',
  'deepseek-v4-pro',
  'kimi-k2.6',
  'mistral-medium-latest',
  'claude-haiku-4-5',
  'claude-sonnet-5',
  'claude-fable-5-2',
] as const;

const base = { max_tokens: 20_000, messages: say('q') };
const chat = (fields: object) => chatRequestSchema.parse({ ...base, model: 'x', ...fields });
const complete = (fields: object) =>
  completionsRequestSchema.parse({ ...base, model: 'x', ...fields });
const respond = (fields: object) =>
  responsesRequestSchema.parse({ model: 'x', input: 'q', ...fields });
const message = (fields: object) => messagesRequestSchema.parse({ ...base, model: 'x', ...fields });
const budget = { thinking: { type: 'enabled', budget_tokens: 5000 } };

/** Requests of one meaning with the field that each sends, and the outcome for each model. */
type Form = readonly [string, readonly (readonly [ChatRequest, string])[], string];
const forms: readonly Form[] = [
  [
    'a high effort',
    [
      [chat({ reasoning_effort: 'high' }), 'reasoning_effort'],
      [complete({ reasoning_effort: 'high' }), 'reasoning_effort'],
      [complete({ reasoning: { effort: 'high' } }), 'reasoning.effort'],
      [complete({ reasoning: { effort: 'high', exclude: true } }), 'reasoning.effort'],
      [complete({ reasoning: { effort: 'high', enabled: true } }), 'reasoning.effort'],
      [respond({ reasoning: { effort: 'high' } }), 'reasoning.effort'],
      [
        message({ thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }),
        'output_config.effort',
      ],
    ],
    `ignored F | high | high | high | high, thinking enabled | high, thinking enabled | thinking enabled | high
     | thinking enabled 16384 | thinking adaptive, high | thinking adaptive, high`,
  ],
  [
    'an effort that few models have',
    [[complete({ reasoning_effort: 'minimal' }), 'reasoning_effort']],
    `ignored F | minimal | low | low | high, thinking enabled | high, thinking enabled | thinking enabled | high
     | thinking enabled 1024 | thinking adaptive, low | thinking adaptive, low`,
  ],
  [
    'no reasoning',
    [
      [chat({ reasoning_effort: 'none' }), 'reasoning_effort'],
      [complete({ reasoning_effort: 'none' }), 'reasoning_effort'],
      [complete({ reasoning: { effort: 'none' } }), 'reasoning.effort'],
      [complete({ reasoning: { enabled: false } }), 'reasoning.enabled'],
      [complete({ reasoning: { enabled: false, effort: 'high' } }), 'reasoning.enabled'],
      [complete({ thinking: { type: 'disabled' } }), 'thinking'],
      [respond({ reasoning: { effort: 'none' } }), 'reasoning.effort'],
    ],
    ` | 400 F | none | 400 F | thinking disabled | thinking disabled | thinking disabled | none
     | thinking disabled | thinking disabled | 400 F`,
  ],
  [
    'no reasoning, as agents send it to every model',
    [[message({ thinking: { type: 'disabled' } }), 'thinking']],
    ` | ignored F | none | ignored F | thinking disabled | thinking disabled | thinking disabled | none
     | thinking disabled | thinking disabled | ignored F`,
  ],
  [
    'reasoning',
    [
      [complete({ reasoning: { enabled: true } }), 'reasoning.enabled'],
      [complete({ thinking: { type: 'enabled' } }), 'thinking'],
    ],
    `ignored F | medium | medium | medium | thinking enabled | thinking enabled | thinking enabled | high
     | thinking enabled 8192 | thinking adaptive | thinking adaptive`,
  ],
  [
    'as much reasoning as the model chooses',
    [
      [complete({ thinking: { type: 'adaptive' } }), 'thinking'],
      [message({ thinking: { type: 'adaptive' } }), 'thinking'],
    ],
    ` | | medium | | thinking enabled | thinking enabled | thinking enabled | high
     | thinking enabled 8192 | thinking adaptive | thinking adaptive`,
  ],
  [
    'a budget',
    [
      [complete({ reasoning: { max_tokens: 5000 } }), 'reasoning.max_tokens'],
      [complete(budget), 'thinking'],
      [message(budget), 'thinking'],
    ],
    `ignored F | medium | medium | medium | high, thinking enabled | high, thinking enabled | thinking enabled | high
     | thinking enabled 5000 | thinking adaptive, medium | thinking adaptive, medium`,
  ],
  [
    'a small budget',
    [[complete({ reasoning: { max_tokens: 500 } }), 'reasoning.max_tokens']],
    `ignored F | low | low | low | high, thinking enabled | high, thinking enabled | thinking enabled | high
     | thinking enabled 1024 | thinking adaptive, low | thinking adaptive, low`,
  ],
  [
    'an effort alone in Anthropic’s format',
    [[message({ output_config: { effort: 'high' } }), 'output_config.effort']],
    `ignored F | high | high | high | high | high | ignored F | high | ignored F | high | high`,
  ],
  [
    'an effort without reasoning in Anthropic’s format',
    [
      [
        message({ thinking: { type: 'disabled' }, output_config: { effort: 'low' } }),
        'output_config.effort',
      ],
    ],
    `ignored F | low, ignored thinking | none | low, ignored thinking | thinking disabled | thinking disabled
     | thinking disabled, ignored F | none | thinking disabled, ignored F | thinking disabled, low | low, ignored thinking`,
  ],
];

it.each(forms)('%s', (_name, requests, expected) => {
  const outcomes = expected.split('|').map((outcome) => outcome.trim());
  for (const [request, field] of requests) {
    const named = outcomes.map((outcome) => outcome.replace(/\bF\b/, field));
    expect(models.map((id) => send(findModel(id), request))).toEqual(named);
  }
});

it.each([{ type: 'enabled', budget_tokens: 500 }, { type: 'sometimes' }])(
  'thinking of %o is rejected',
  (thinking) => {
    expect(() => complete({ thinking })).toThrow(/budget_tokens|one of enabled/);
  },
);

it('what agents send reaches every model of the catalog in a form that its provider takes', () => {
  const requests = [
    message({ thinking: { type: 'adaptive' }, output_config: { effort: 'max' } }),
    message({ thinking: { type: 'disabled' }, output_config: { effort: 'low' } }),
    message(budget),
    complete({ thinking: { type: 'enabled' }, reasoning_effort: 'xhigh' }),
    respond({ reasoning: { effort: 'minimal' } }),
  ];
  for (const model of chatModels.filter(({ embedding }) => !embedding)) {
    for (const request of requests) expect(send(model, request)).not.toMatch(/400/);
  }
});
