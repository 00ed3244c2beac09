/** Clients whose types check every answer: openai and anthropic for Python in strict mode, Open Responses, and Java. */
import { writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { root, run } from '../../dev/clients/tools.ts';
import { installPython } from '../../dev/stack/tools.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway } from '../harness/gateway.ts';
import { makeSpeech } from '../harness/media.ts';
import { installMs, useInstallation } from './installed.ts';

const gateway = useGateway({ settled: 'last' });
const folder = join(root, 'test', 'clients');

describe('the strict types of Python', () => {
  let python = '';
  beforeAll(async () => {
    const packages = ['anthropic==2.14.0', 'openai==3.57.0', 'openresponses-types==2.4.0'];
    python = join(await installPython('python-types', packages), 'python');
  }, installMs);

  it('accept one answer of each kind', async () => {
    const recording = join(newFolder(), 'speech.mp3');
    await writeFile(recording, await makeSpeech(3));
    const { url, caller } = gateway;
    const program = join(folder, 'strict_types.py');
    const { stdout } = await run(python, [program, url, caller.key, recording]);
    const ofModel = (model: string) => ({
      [`chat ${model}`]: 'chat.completion',
      [`chat stream ${model}`]: 'chat.completion.chunk',
      [`chat tool ${model}`]: 'tool_calls',
      [`response ${model}`]: 'response',
      [`response stream ${model}`]: 'response.completed',
      [`message ${model}`]: 'message',
      [`message stream ${model}`]: 'message_stop',
    });
    expect(JSON.parse(stdout)).toEqual({
      ...ofModel('gpt-4.1-mini'),
      ...ofModel('gpt-5-mini'),
      ...ofModel('claude-sonnet-5'),
      ...ofModel('gemini-3.5-flash'),
      models: 'model',
      model: 'model',
      'models of Anthropic': 'model',
      'model of Anthropic': 'model',
      tokens: true,
      embeddings: 'list',
      batch: ['completed', true, 'batch_output', true],
      image: 1,
      transcription: true,
      video: 'video',
      'video without size': '1280x720',
      'Open Responses: text': 'completed',
      'Open Responses: phases': 'completed',
      'Open Responses: system prompt': 'completed',
      'Open Responses: tools': 'function_call',
      'Open Responses: picture': 'completed',
      'Open Responses: turns': 'completed',
      'Open Responses: stream': 'completed',
    });
  });
});

describe('openai-java and anthropic-java', () => {
  // For programs of seconds, the optimizing compiler and parallel collectors cost more than they save.
  const JAVA_TOOL_OPTIONS = '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC';
  const options = { env: { ...process.env, JAVA_TOOL_OPTIONS }, timeout: 240_000 };
  const installation = useInstallation('java-clients', async (place) => {
    const pom = ['-f', join(folder, 'java', 'pom.xml')];
    const output = `-DoutputDirectory=${join(place, 'lib')}`;
    await run('mvn', ['-q', '-B', ...pom, 'dependency:copy-dependencies', output], options);
  });

  it('validate each answer, and show the text of errors', async () => {
    const { place } = installation;
    const classes = ['-cp', [join(place, 'lib', '*'), place].join(delimiter)];
    await run('javac', [...classes, '-d', place, join(folder, 'java', 'Calls.java')], options);
    const { url, caller } = gateway;
    const { stdout } = await run('java', [...classes, 'Calls', url, caller.key], options);
    expect(stdout.trim().split('\n')).toEqual([
      'You said: hi',
      'You said: hi',
      '1',
      '1024',
      'true',
      'You said: hi',
      'true',
      expect.stringContaining('model "gpt-0" does not exist'),
      expect.stringContaining('Missing or invalid API key.'),
    ]);
  });
});
