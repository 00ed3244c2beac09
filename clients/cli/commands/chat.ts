/** Commands `studio models` and `studio chat`. */
import { Command } from 'commander';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { z } from 'zod';
import { CliError } from '../api-client.ts';
import {
  toCell,
  toCells,
  fields,
  listResponse,
  readList,
  type Columns,
  formatTable,
} from '../output.ts';
import { showEstimate } from '../estimates.ts';
import { omitUndefined, parseNumber, collectValue, collectPair } from '../fields.ts';
import { openSession, type Session } from '../session.ts';

const modelList = z.looseObject({
  models: z.array(
    z.looseObject({
      id: z.string(),
      name: z.string(),
      cost: z.looseObject({ input: z.number(), output: z.number() }),
      limit: z.looseObject({ context: z.number(), output: z.number() }),
    }),
  ),
});

/** Creates the command `studio models`. */
export function createModelsCommand(): Command {
  return new Command('models')
    .description('list the chat models with their prices; with --studio, list the Studio models')
    .argument('[terms...]', 'only models whose id or name contains all terms')
    .option('--studio', 'list the Studio models for images, video and sound')
    .action(async (terms: string[], { studio }: { studio?: boolean }, command: Command) => {
      const session = openSession(command);
      if (studio) {
        await showStudioModels(session, terms);
        return;
      }
      const { body, raw } = await session.client('caller').send('/api/v1/models', modelList);
      const matchingModels = body.models.filter(({ id, name }) =>
        terms.every((term) => `${id} ${name}`.toLowerCase().includes(term.toLowerCase())),
      );
      if (matchingModels.length === 0) {
        session.output.note('No chat model matches. To search the Studio models, add --studio.');
      }
      session.output.show(terms.length > 0 ? matchingModels : raw, () =>
        formatTable(
          matchingModels.map(({ id, name, cost, limit }) => ({
            id,
            name,
            'USD per 1M input tokens': cost.input,
            'USD per 1M output tokens': cost.output,
            'context (tokens)': limit.context,
            'max output (tokens)': limit.output,
          })),
        ),
      );
    });
}

const studioColumns: Columns = {
  id: 'id',
  model: 'displayName',
  'example price (credits)': 'example.credits',
  example: (model) => JSON.stringify(fields.safeParse(model['example']).data?.['request'] ?? {}),
};

async function showStudioModels(session: Session, terms: readonly string[]): Promise<void> {
  const { body, raw } = await session.client('caller').send('/api/v1/studio/models', listResponse);
  session.output.show(raw, () =>
    formatTable(
      body.data.flatMap((endpoint) =>
        readList(endpoint, 'models')
          .map((model) => ({ type: toCell(endpoint, 'type'), ...toCells(model, studioColumns) }))
          .filter((row) =>
            terms.every((term) => JSON.stringify(row).toLowerCase().includes(term.toLowerCase())),
          ),
      ),
    ),
  );
}

interface ChatOptions {
  model: string;
  system?: string;
  image?: string[];
  maxTokens?: number;
  temperature?: number;
  metadata?: Record<string, string>;
  stream: boolean;
  estimate?: boolean;
}

const usage = z.looseObject({ inputTokens: z.number(), outputTokens: z.number() });
const chatResponse = z.looseObject({
  content: z.string(),
  usage,
  creditsConsumed: z.number().nullable(),
});
/** Event in the stream of POST /api/v1/chat. */
const chatEvent = z.union([
  z.looseObject({ type: z.literal('delta'), delta: z.string() }),
  z.looseObject({
    type: z.literal('done'),
    usage: usage.optional(),
    creditsConsumed: z.number().nullable(),
  }),
  z.looseObject({ type: z.literal('error'), error: z.string(), message: z.string().optional() }),
]);

/** Creates the command `studio chat`. */
export function createChatCommand(): Command {
  return new Command('chat')
    .description('send a prompt to a chat model and print the answer as it arrives')
    .argument('<prompt...>')
    .requiredOption('-m, --model <id>', 'id of a chat model; `studio models` lists them')
    .option('-s, --system <text>', 'system prompt')
    .option('--image <url>', 'URL of an input image (repeatable)', collectValue)
    .option('--max-tokens <n>', 'maximum number of tokens in the answer', parseNumber)
    .option('--temperature <n>', 'sampling temperature', parseNumber)
    .option(
      '--metadata <name=value>',
      'a pair, for example team=marketing (repeatable)',
      collectPair,
    )
    .option('--no-stream', 'wait for the whole answer before printing it')
    .option('--estimate', 'show the estimated price without sending the prompt to a model')
    .action(async (prompt: string[], options: ChatOptions, command: Command) => {
      const session = openSession(command);
      const body = buildRequest(prompt.join(' '), options);
      if (options.estimate) await showEstimate(session, '/chat', { body });
      else if (options.stream && !session.output.json) await streamResponse(session, body);
      else {
        const { body: answer, raw } = await session
          .client('caller')
          .send('/api/v1/chat', chatResponse, { body });
        session.output.show(raw, () => `${answer.content}\n`);
        noteUsage(session, answer.usage, answer.creditsConsumed);
      }
    });
}

function buildRequest(prompt: string, options: ChatOptions): Record<string, unknown> {
  const images = (options.image ?? []).map((url) => ({ type: 'image_url', image_url: { url } }));
  const content = images.length > 0 ? [{ type: 'text', text: prompt }, ...images] : prompt;
  return omitUndefined({
    model: options.model,
    messages: [
      ...(options.system === undefined ? [] : [{ role: 'system', content: options.system }]),
      { role: 'user', content },
    ],
    max_tokens: options.maxTokens,
    temperature: options.temperature,
    metadata: options.metadata,
  });
}

async function streamResponse(session: Session, body: object): Promise<void> {
  const response = await session.client('caller').fetchResponse('/api/v1/chat', {
    body: { ...body, stream: true },
    headers: { accept: 'text/event-stream' },
  });
  if (!response.body) throw new CliError('the response of the gateway has no body');
  const events = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  let isComplete = false;
  for await (const { data } of events) {
    if (data === '[DONE]') break;
    const event = chatEvent.parse(JSON.parse(data));
    if (event.type === 'delta') session.output.write(event.delta);
    else if (event.type === 'error') {
      session.output.write('\n');
      throw new CliError(`the answer ended unexpectedly: ${event.error}: ${event.message ?? ''}`);
    } else {
      isComplete = true;
      session.output.write('\n');
      noteUsage(session, event.usage, event.creditsConsumed);
    }
  }
  if (!isComplete) throw new CliError('the answer ended unexpectedly');
}

function noteUsage(
  session: Session,
  tokens: z.infer<typeof usage> | undefined,
  credits: number | null,
): void {
  const counted = tokens
    ? `${tokens.inputTokens} input tokens, ${tokens.outputTokens} output tokens, `
    : '';
  session.output.note(`${counted}${credits ?? 'not yet known'} credits`);
}
