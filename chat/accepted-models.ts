/** Opens the chat catalog: committed models, the operator's models file and the price markup. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { chatModels, chatModelsFile, configureChatModels, createChatCatalog } from './catalog.ts';
import { ConfigError } from '../platform/config-error.ts';
import type { Config } from '../platform/config.ts';

/**
 * Opens the chat catalog.
 * @throws ConfigError if CHAT_MODELS_FILE cannot be read or is invalid
 */
export async function openChatCatalog(
  config: Pick<Config, 'CHAT_MODELS_FILE' | 'CHAT_PRICE_MARKUP'>,
  findOtherEndpoint?: (id: string) => string | null,
) {
  const file = config.CHAT_MODELS_FILE;
  const own = file === undefined ? { models: [], disable: [] } : await readModelsFile(file);
  const overlay = { ...own, priceMarkup: config.CHAT_PRICE_MARKUP };
  return createChatCatalog(configureChatModels(chatModels, overlay), {
    ...(findOtherEndpoint && { findOtherEndpoint }),
  });
}

async function readModelsFile(file: string): Promise<z.infer<typeof chatModelsFile>> {
  try {
    return chatModelsFile.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch (error) {
    throw new ConfigError(`configuration: CHAT_MODELS_FILE is invalid: ${describeError(error)}`);
  }
}

function describeError(error: unknown): string {
  if (!(error instanceof z.ZodError)) return error instanceof Error ? error.message : String(error);
  const [issue] = error.issues;
  return `${issue?.path.map(String).join('.') || '(file)'}: ${issue?.message}`;
}
