/** Options that providers with OpenAI's protocol reject for some of their models. Based on their API references and errors. */

/** Efforts that a group of models accepts, and whether its provider knows `thinking` or `reasoning`. */
interface ReasoningRule {
  models: RegExp;
  efforts: readonly string[];
  field?: 'thinking' | 'reasoning';
}

/** The first rule whose pattern matches applies; other models accept every effort. */
const reasoningRules: readonly ReasoningRule[] = [
  { models: /^(gpt-4|mistral-large-(2512|latest)|ministral|codestral|voxtral|llama)/, efforts: [] },
  { models: /^gpt-5(-mini|-nano)?$/, efforts: ['minimal', 'low', 'medium', 'high'] },
  { models: /^gpt-5\.1$/, efforts: ['none', 'low', 'medium', 'high'] },
  { models: /^gpt-5\.[2-5]/, efforts: ['none', 'low', 'medium', 'high', 'xhigh'] },
  { models: /^(o3$|gemini-(3\.1-pro|4)|openai\/gpt-oss)/, efforts: ['low', 'medium', 'high'] },
  { models: /^gemini-2\.5-flash/, efforts: ['none', 'minimal', 'low', 'medium', 'high'] },
  { models: /^gemini/, efforts: ['minimal', 'low', 'medium', 'high'] },
  { models: /^grok/, efforts: ['none', 'low', 'medium', 'high', 'xhigh'] },
  { models: /^mistral-(medium|small)/, efforts: ['none', 'high'] },
  { models: /^qwen\/qwen3\.6/, efforts: ['none', 'default'] },
  { models: /^qwen\/qwen3\.8/, efforts: ['none', 'low', 'medium', 'high'] },
  { models: /^deepseek-(v4-pro|flash)$/, efforts: ['low', 'high', 'max'], field: 'thinking' },
  { models: /^glm-5\.[23]/, efforts: ['low', 'high', 'max'], field: 'thinking' },
  { models: /^(glm|kimi-k2|mimo)/, efforts: [], field: 'thinking' },
  { models: /^kimi-k3/, efforts: ['low', 'high', 'max'] },
  { models: /^deepseek-ai\/DeepSeek-V4-Pro/, efforts: ['high'], field: 'reasoning' },
  { models: /^[\w-]+\//, efforts: [], field: 'reasoning' },
];
/** Models that reject an attempt to turn their reasoning off. */
const alwaysReasons = /^(kimi-k2\.7|glm-5\.3)/;

interface Options {
  model: string;
  reasoning_effort?: string | null | undefined;
  thinking?: unknown;
  reasoning?: unknown;
}

/** Returns the error message for a reasoning option that the model rejects, otherwise null. */
export function findReasoningError(options: Options): string | null {
  const { model, reasoning_effort: effort } = options;
  const rule = reasoningRules.find(({ models }) => models.test(model));
  for (const field of ['thinking', 'reasoning'] as const) {
    if (options[field] !== undefined && rule?.field !== field)
      return `Unrecognized request argument supplied: ${field}`;
  }
  if (alwaysReasons.test(model) && JSON.stringify(options.thinking)?.includes('disabled'))
    return 'thinking cannot be disabled for this model';
  if (effort == null || !rule || rule.efforts.includes(effort)) return null;
  return rule.efforts.length === 0
    ? 'Unrecognized request argument supplied: reasoning_effort'
    : `Unsupported value: 'reasoning_effort' does not support '${effort}' with this model. Supported values are: ${rule.efforts.join(', ')}`;
}

/** Names of functions that a provider accepts. */
const namePatterns: readonly (readonly [RegExp, RegExp])[] = [
  [/^(gemini|kimi)/, /^[a-zA-Z_][\w-]{0,63}$/],
  [/./, /^[\w-]{1,64}$/],
];

/** Returns the error message for a name of a function that the provider rejects, otherwise null. */
export function findNameError(model: string, names: readonly string[]): string | null {
  const [, pattern = /./] = namePatterns.find(([models]) => models.test(model)) ?? [];
  const wrong = names.find((name) => !pattern.test(name));
  return wrong === undefined
    ? null
    : `Invalid 'tools[0].function.name': '${wrong}' does not match the expected pattern '${pattern.source}'.`;
}
