/** Official clients of a caller, and parts of requests that many chat tests use. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeEach } from 'vitest';
import type { TestCaller, TestGateway } from '../harness/gateway.ts';

/** A caller and its clients, which do not retry. */
export interface ChatClients {
  caller: TestCaller;
  openai: OpenAI;
  anthropic: Anthropic;
}

/** Returns the clients of a caller. */
export function clientsOf({ url }: TestGateway, caller: TestCaller): ChatClients {
  const options = { apiKey: caller.key, maxRetries: 0 };
  return {
    caller,
    openai: new OpenAI({ ...options, baseURL: `${url}/v1` }),
    anthropic: new Anthropic({ ...options, baseURL: url }),
  };
}

/** Returns the clients of a caller that is new for each test. */
export function useClients(gateway: TestGateway): ChatClients {
  const clients = {} as ChatClients;
  beforeEach(async () => {
    Object.assign(clients, clientsOf(gateway, await gateway.newCaller({ credits: 1000 })));
  });
  return clients;
}

/** Returns the messages of a chat with one text of the user. */
export const say = (content: string) => [{ role: 'user' as const, content }];

/** A PNG image of one pixel, base64. */
export const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
/** The same image as a data URL. */
export const onePixelUrl = `data:image/png;base64,${onePixel}`;
