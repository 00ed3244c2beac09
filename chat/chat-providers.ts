/** Providers of chat models: names, protocols and addresses. */

import type { ChatModel } from './models.ts';

/** Wire protocol of a chat provider: OpenAI Chat Completions or Anthropic Messages. */
export type ChatProtocol = ChatModel['protocol'];

/** Provider that serves chat models. */
export interface ChatProvider {
  /**
   * Name of the provider, as in `ChatModel.provider`. In upper case, it is the prefix of the
   * provider's environment variables (`XAI_API_KEY`).
   */
  name: string;
  displayName: string;
  protocol: ChatProtocol;
  /** Base URL of the provider's API; requests append `/chat/completions` or `/v1/messages`. */
  baseUrl: string;
  /** Whether the provider serves other makers' models. Their public ids start with its name. */
  hostsOtherMakers?: true;
}

/**
 * All chat providers, in the order in which the catalog was generated. The URLs are from the
 * providers' API references.
 */
export const chatProviders: readonly ChatProvider[] = [
  {
    name: 'openai',
    displayName: 'OpenAI',
    protocol: 'openai',
    baseUrl: 'https://api.openai.com/v1',
  },
  {
    name: 'anthropic',
    displayName: 'Anthropic',
    protocol: 'anthropic',
    baseUrl: 'https://api.anthropic.com',
  },
  {
    name: 'google',
    displayName: 'Google',
    protocol: 'openai',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
  },
  { name: 'xai', displayName: 'xAI', protocol: 'openai', baseUrl: 'https://api.x.ai/v1' },
  {
    name: 'mistral',
    displayName: 'Mistral',
    protocol: 'openai',
    baseUrl: 'https://api.mistral.ai/v1',
  },
  {
    name: 'deepseek',
    displayName: 'DeepSeek',
    protocol: 'openai',
    baseUrl: 'https://api.deepseek.com',
  },
  { name: 'meta', displayName: 'Meta', protocol: 'openai', baseUrl: 'https://api.meta.ai/v1' },
  {
    name: 'moonshotai',
    displayName: 'Moonshot AI',
    protocol: 'openai',
    baseUrl: 'https://api.moonshot.ai/v1',
  },
  { name: 'zai', displayName: 'Z.ai', protocol: 'openai', baseUrl: 'https://api.z.ai/api/paas/v4' },
  {
    name: 'minimax',
    displayName: 'MiniMax',
    protocol: 'anthropic',
    baseUrl: 'https://api.minimax.io/anthropic',
  },
  {
    name: 'xiaomi',
    displayName: 'Xiaomi',
    protocol: 'openai',
    baseUrl: 'https://api.xiaomimimo.com/v1',
  },
  {
    name: 'groq',
    displayName: 'Groq',
    protocol: 'openai',
    baseUrl: 'https://api.groq.com/openai/v1',
    hostsOtherMakers: true,
  },
  {
    name: 'cerebras',
    displayName: 'Cerebras',
    protocol: 'openai',
    baseUrl: 'https://api.cerebras.ai/v1',
    hostsOtherMakers: true,
  },
  {
    name: 'together',
    displayName: 'Together',
    protocol: 'openai',
    baseUrl: 'https://api.together.ai/v1',
    hostsOtherMakers: true,
  },
];
