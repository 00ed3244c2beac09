/** Reads the API keys and base URLs of the chat providers from the environment. */
import { z } from 'zod';
import { ConfigError } from './config-error.ts';
import { headerSecret } from './variable-types.ts';

/** Chat provider with an API key. `baseUrl` overrides the provider's own URL. */
export interface ChatUpstream {
  apiKey: string;
  baseUrl?: string;
}

const upstream = z.strictObject({
  apiKey: headerSecret,
  baseUrl: z.url({ protocol: /^https?$/ }).exactOptional(),
});
/** Schema of `CHAT_UPSTREAMS`: additional providers, e.g. for the operator's own models. */
const extraUpstreams = z.record(z.string().regex(/^[a-z][a-z0-9-]{0,31}$/), upstream);

/**
 * Returns the API keys and base URLs of chat providers, by provider name. Contains the providers in
 * `names` whose variable `<NAME>_API_KEY` is set, and the providers in CHAT_UPSTREAMS.
 * @throws ConfigError if a variable is invalid
 */
export function readChatUpstreams(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Readonly<Record<string, ChatUpstream>> {
  const upstreams: Record<string, ChatUpstream> = { ...readExtraUpstreams(env['CHAT_UPSTREAMS']) };
  for (const name of names) {
    const prefix = name.toUpperCase();
    const apiKey = env[`${prefix}_API_KEY`];
    if (!apiKey) continue;
    const baseUrl = env[`${prefix}_BASE_URL`];
    const parsed = upstream.safeParse({ apiKey, ...(baseUrl && { baseUrl }) });
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      throw new ConfigError(
        issue?.path[0] === 'apiKey'
          ? `configuration: ${prefix}_API_KEY is wrong: ${issue.message}`
          : `configuration: ${prefix}_BASE_URL is wrong: must be a URL`,
      );
    }
    upstreams[name] = parsed.data;
  }
  return upstreams;
}

function readExtraUpstreams(text: string | undefined): Record<string, ChatUpstream> {
  if (!text) return {};
  try {
    return extraUpstreams.parse(JSON.parse(text));
  } catch (error) {
    const issue = error instanceof z.ZodError ? error.issues[0] : undefined;
    const [name, field] = issue?.path ?? [];
    throw new ConfigError(
      `configuration: CHAT_UPSTREAMS is wrong: ${
        issue && field === 'apiKey' && issue.code === 'invalid_format'
          ? `${String(name)}.apiKey ${issue.message}`
          : 'must be JSON, {"name": {"apiKey": …, "baseUrl": …}}'
      }`,
    );
  }
}
