/** Clients that other programs generate from `/api/v1/openapi.json?version=3.0`, with a gateway. */
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../dev/clients/tools.ts';
import { findGo, installPython } from '../../dev/stack/tools.ts';
import { useGateway } from '../harness/gateway.ts';
import { installMs, useInstallation } from './installed.ts';

const gateway = useGateway({ settled: 'last' });
let description: string;
beforeAll(async () => {
  const response = await fetch(`${gateway.url}/api/v1/openapi.json?version=3.0`);
  description = await response.text();
});
const environment = () => ({ ...process.env, BASE: gateway.url, KEY: gateway.caller.key });
const options = { maxBuffer: 64 * 1024 * 1024, timeout: installMs };

/** Output of each program below: a media type, an answer, a number of jobs, and an error code. */
const printed = /^image\/png\nYou said: the pier\n[1-9]\d*\nINVALID_REQUEST$/;

describe('the description for generators', () => {
  it('is OpenAPI 3.0, without null types, nameless objects or unions, or names that differ by case', () => {
    const document = JSON.parse(description);
    expect(document.openapi).toBe('3.0.3');
    const names = Object.keys(document.components.schemas);
    expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(names.length);
    const nameless: string[] = [];
    const visit = (value: unknown, path: string[]): void => {
      if (typeof value !== 'object' || value === null) return;
      const isNamed = path.length === 3 && path[0] === 'components';
      const isProperties = path.at(-1) === 'properties' && path.at(-2) !== 'properties';
      const { type, properties, anyOf, oneOf } = value as Record<string, unknown>;
      if (!isProperties && !isNamed && (anyOf ?? oneOf)) nameless.push(path.join('/'));
      if (!isProperties && (type === 'null' || Array.isArray(type))) nameless.push(path.join('/'));
      if (
        !isProperties &&
        !isNamed &&
        Object.keys(properties ?? {}).length > 0 &&
        type === 'object'
      )
        nameless.push(path.join('/'));
      for (const [name, part] of Object.entries(value)) visit(part, [...path, name]);
    };
    visit(document.components.schemas, ['components', 'schemas']);
    visit(document.paths, ['paths']);
    expect(nameless).toEqual([]);
    // A name that ends with a digit, other than a status code, was already taken by another schema.
    expect(names.filter((name) => /(?<!20|40)\d$/.test(name))).toEqual([]);
    const { discriminator } = document.components.schemas.ChatRequestMessage;
    expect(discriminator.mapping.user).toBe('#/components/schemas/ChatUserMessage');
    const { seed, imageUrls } = document.components.schemas.ImageGenerateRequest.properties;
    expect(document.components.schemas.ChatRequest.properties.seed.format).toBe('int64');
    expect([seed.format, imageUrls.nullable]).toEqual([undefined, undefined]);
    expect(names).toEqual(
      expect.arrayContaining([
        'ChatUserMessage',
        'ChatToolCall',
        'ImageGenerateRequest',
        'Job',
        'Error',
      ]),
    );
  });

  it('leaves out fields that only null fits, and says which versions there are', async () => {
    const { schemas } = JSON.parse(description).components;
    expect(Object.keys(schemas.CreateMessageRequest.properties)).not.toContain('container');
    expect(Object.keys(schemas.OpenAIVideo.properties)).not.toContain('expires_at');
    expect(await gateway.call('/api/v1/openapi.json?version=2.0')).toMatchObject({
      status: 400,
      body: { details: [{ path: 'version' }] },
    });
  });
});

describe('oapi-codegen', () => {
  const installation = useInstallation('oapi-codegen', async (place) => {
    const go = await findGo(() => {});
    await writeFile(join(place, 'openapi.json'), description);
    await writeFile(join(place, 'go.mod'), 'module example.com/program\n\ngo 1.24\n');
    await mkdir(join(place, 'studio'));
    const generator = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.5.1';
    const flags = ['-generate', 'types,client', '-package', 'studio', '-o', 'studio/client.go'];
    await run(go, ['run', generator, ...flags, 'openapi.json'], { cwd: place, ...options });
    await writeFile(join(place, 'main.go'), goProgram);
    await run(go, ['mod', 'tidy'], { cwd: place, ...options });
    await run(go, ['build', '-o', 'program', '.'], { cwd: place, ...options });
  });

  it('generates a client for Go that makes a picture, chats, lists and reads errors', async () => {
    const { stdout } = await run(join(installation.place, 'program'), [], {
      env: environment(),
      ...options,
    });
    expect(stdout.trim()).toMatch(printed);
  });
});

describe('openapi-python-client', () => {
  const installation = useInstallation('openapi-python-client', async (place) => {
    await writeFile(join(place, 'openapi.json'), description);
    const commands = await installPython('openapi-python-client', [
      'openapi-python-client==0.26.2',
      'ruff==0.13.3',
    ]);
    const flags = ['--path', 'openapi.json', '--meta', 'none', '--output-path', 'studio'];
    const { stdout } = await run(
      join(commands, 'openapi-python-client'),
      ['generate', ...flags, '--fail-on-warning'],
      {
        cwd: place,
        env: { ...process.env, PATH: `${commands}${delimiter}${process.env['PATH']}` },
        ...options,
      },
    );
    expect(stdout).not.toContain('WARNING');
    await writeFile(join(place, 'program.py'), pythonProgram);
  });

  it('generates a client for Python that makes a picture, chats, lists and reads errors', async () => {
    const commands = await installPython('openapi-python-client', [
      'openapi-python-client==0.26.2',
      'ruff==0.13.3',
    ]);
    const { stdout } = await run(join(commands, 'python'), ['program.py'], {
      cwd: installation.place,
      env: environment(),
      ...options,
    });
    expect(stdout.trim()).toMatch(printed);
  });
});

const goProgram = `package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"example.com/program/studio"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	addKey := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("KEY"))
		return nil
	}
	client, err := studio.NewClientWithResponses(os.Getenv("BASE"), studio.WithRequestEditorFn(addKey))
	check(err)

	image, err := client.ImageGenerateWithResponse(ctx, nil, studio.ImageGenerateRequest{Prompt: "a lighthouse"})
	check(err)
	if image.JSON200 == nil {
		panic(string(image.Body))
	}
	fmt.Println(image.JSON200.Data.Images[0].ContentType)

	var part studio.ChatUserMessageContent
	check(part.FromChatContent(studio.ChatContent{Type: "text", Text: "the pier"}))
	var message studio.ChatRequestMessage
	content := []studio.ChatUserMessageContent{part}
	check(message.FromChatUserMessage(studio.ChatUserMessage{Role: "user", Content: content}))
	chat, err := client.ChatWithResponse(ctx, nil, studio.ChatRequest{
		Model: "gpt-5-mini", Messages: []studio.ChatRequestMessage{message},
	})
	check(err)
	fmt.Println(chat.JSON200.Content)

	jobs, err := client.ListJobsWithResponse(ctx, nil)
	check(err)
	fmt.Println(len(jobs.JSON200.Data))

	wrong, err := client.ImageGenerateWithResponse(ctx, nil, studio.ImageGenerateRequest{Prompt: "x"})
	check(err)
	fmt.Println(wrong.JSON400.Error)
}
`;

const pythonProgram = `import os

from studio import AuthenticatedClient
from studio.api.chat import chat
from studio.api.jobs import list_jobs
from studio.api.studio_image import image_generate
from studio.models import ChatRequest, ImageGenerateRequest

client = AuthenticatedClient(base_url=os.environ["BASE"], token=os.environ["KEY"])
image = image_generate.sync(client=client, body=ImageGenerateRequest(prompt="a lighthouse"))
print(image.data.images[0].content_type)
message = {"role": "user", "content": [{"type": "text", "text": "the pier"}]}
request = ChatRequest.from_dict({"model": "gpt-5-mini", "messages": [message]})
print(chat.sync(client=client, body=request).content)
print(len(list_jobs.sync(client=client).data))
print(image_generate.sync(client=client, body=ImageGenerateRequest(prompt="x")).error)
`;
