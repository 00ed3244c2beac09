/**
 * Agents as their documentation builds them: each client runs a tool loop of three turns with a
 * model like Gemini, one like Claude and one like GPT, and reads a structured answer. The providers
 * of the sandbox reject requests that the real providers reject.
 */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatAnthropic } from '@langchain/anthropic';
import { HumanMessage, ToolMessage, type BaseMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import {
  Agent,
  OpenAIProvider,
  Runner,
  setTracingDisabled,
  tool as agentTool,
} from '@openai/agents';
import {
  generateText,
  isStepCount,
  Output,
  streamText,
  tool as aiTool,
  type LanguageModel,
  type ModelMessage,
} from 'ai';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { useGateway } from '../harness/gateway.ts';
import { untilAllSettled } from './chat-account.ts';
import { useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
beforeEach(() => setTracingDisabled(true));

const models = ['gemini-3.5-flash', 'claude-sonnet-5', 'gpt-5-mini'];
const question = '[[tool-rounds:2]] [[preface]] how is the tide';
const place = z.object({ place: z.string() });
const tide = z.object({ height: z.number(), place: z.string() });
const lookUp = { name: 'look_up', description: 'Returns the tide of a place.' };
const answered = /^The tool said: .*high at/s;
const report = (input: { place: string }): string => `high at ${input.place}`;

/** Checks that three requests were charged: two that called the tool, and the answer. */
async function expectThreeTurns(): Promise<void> {
  expect(await untilAllSettled(gateway, clients.caller)).toHaveLength(3);
}

describe.each(models)('with %s', (model) => {
  const base = (): string => `${gateway.url}/v1`;

  describe('the AI SDK', () => {
    const settings = () => ({ baseURL: base(), apiKey: clients.caller.key });
    const compatible = () =>
      createOpenAICompatible({ name: 'gateway', supportsStructuredOutputs: true, ...settings() });
    const providers: [string, () => LanguageModel][] = [
      ['openai', () => createOpenAI(settings())(model)],
      ['openai.chat', () => createOpenAI(settings()).chat(model)],
      ['openai-compatible', () => compatible()(model)],
      ['anthropic', () => createAnthropic(settings())(model)],
    ];
    const loop = (language: () => LanguageModel) => ({
      model: language(),
      prompt: question,
      tools: { look_up: aiTool({ ...lookUp, inputSchema: place, execute: report }) },
      stopWhen: isStepCount(4),
    });

    it.each(providers)('(%s) runs a tool loop', async (_name, language) => {
      const { text, steps } = await generateText(loop(language));
      expect([steps.length, text]).toEqual([3, expect.stringMatching(answered)]);
      await expectThreeTurns();
    });

    it.each(providers)('(%s) streams a tool loop', async (_name, language) => {
      expect(await streamText(loop(language)).text).toMatch(answered);
      await expectThreeTurns();
    });

    it.each(providers)('(%s) reads a structured answer', async (_name, language) => {
      const { output } = await generateText({
        model: language(),
        prompt: 'the tide',
        output: Output.object({ schema: tide }),
      });
      expect(tide.parse(output)).toEqual(output);
    });
  });

  describe('LangChain', () => {
    const tool = langchainTool(report, { ...lookUp, schema: place });
    const openai = (useResponsesApi: boolean) =>
      new ChatOpenAI({
        model,
        apiKey: clients.caller.key,
        configuration: { baseURL: base() },
        useResponsesApi,
        maxRetries: 0,
      });
    const kinds: [string, () => ChatOpenAI | ChatAnthropic][] = [
      ['ChatOpenAI', () => openai(false)],
      ['ChatOpenAI with the Responses API', () => openai(true)],
      [
        'ChatAnthropic',
        () =>
          new ChatAnthropic({
            model,
            apiKey: clients.caller.key,
            anthropicApiUrl: gateway.url,
            maxTokens: 500,
            maxRetries: 0,
          }),
      ],
    ];

    it.each(kinds)('(%s) runs a tool loop', async (_name, create) => {
      const client = create().bindTools([tool]);
      const messages: BaseMessage[] = [new HumanMessage(question)];
      for (let turn = 1; turn <= 3; turn += 1) {
        const answer = await client.invoke(messages);
        messages.push(answer);
        for (const call of answer.tool_calls ?? []) {
          const content = report(place.parse(call.args));
          messages.push(new ToolMessage({ tool_call_id: call.id ?? '', content }));
        }
      }
      expect(messages.at(-1)?.text).toMatch(answered);
      await expectThreeTurns();
    });

    it.each(kinds)('(%s) reads a structured answer', async (_name, create) => {
      const answer = await create().withStructuredOutput(tide).invoke('the tide');
      expect(tide.parse(answer)).toEqual(answer);
    });
  });

  describe('OpenAI Agents', () => {
    const tools = [
      agentTool({
        ...lookUp,
        parameters: place,
        execute: (input) => Promise.resolve(report(input)),
      }),
    ];
    const runner = (useResponses: boolean): Runner =>
      new Runner({
        modelProvider: new OpenAIProvider({
          baseURL: base(),
          apiKey: clients.caller.key,
          useResponses,
        }),
      });

    describe.each([
      ['its default, the Responses API', true],
      ['chat completions', false],
    ])('with %s', (_name, useResponses) => {
      it('runs a tool loop', async () => {
        const agent = new Agent({ name: 'harbour', instructions: 'Be brief.', model, tools });
        const { finalOutput } = await runner(useResponses).run(agent, question);
        expect(finalOutput).toMatch(answered);
        await expectThreeTurns();
      });

      it('reads a structured answer', async () => {
        const agent = new Agent({ name: 'harbour', model, outputType: tide });
        const { finalOutput } = await runner(useResponses).run(agent, 'the tide');
        expect(tide.parse(finalOutput)).toEqual(finalOutput);
      });
    });
  });
});

describe('a second question of the AI SDK’s default, which refers to stored answers', () => {
  const provider = (model: string) =>
    createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: clients.caller.key })(model);
  /** Sends two questions, of which a tool loop answers the first; returns the second answer. */
  async function converse(
    model: string,
    providerOptions: Record<string, { store: boolean }>,
  ): Promise<string> {
    const look_up = aiTool({ ...lookUp, inputSchema: place, execute: report });
    const options = {
      model: provider(model),
      tools: { look_up },
      stopWhen: isStepCount(4),
      providerOptions,
    };
    const messages: ModelMessage[] = [{ role: 'user', content: question }];
    const { response } = await generateText({ ...options, messages });
    messages.push(...response.messages, { role: 'user', content: '[[words:3]] and the wind' });
    return (await generateText({ ...options, messages, toolChoice: 'none' })).text;
  }

  it.each(['gemini-3.5-flash', 'claude-sonnet-5', 'gpt-4o'])(
    'is rejected with the setting that avoids it, and costs nothing (%s)',
    async (model) => {
      await expect(converse(model, {})).rejects.toMatchObject({
        statusCode: 400,
        isRetryable: false,
        message: expect.stringMatching(/^input\.\d+\.type: item_reference .* store: false/),
      });
      await expectThreeTurns();
    },
  );

  it.each([
    ['gpt-5-mini', {}],
    ['gemini-3.5-flash', { openai: { store: false } }],
    ['claude-sonnet-5', { openai: { store: false } }],
  ])('is answered if the whole conversation is sent (%s, %o)', async (model, options) => {
    expect(await converse(model, options)).toMatch(/^\s*0xxx/);
    expect(await untilAllSettled(gateway, clients.caller)).toHaveLength(4);
  });
});
