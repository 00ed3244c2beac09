/** One trace of a job over an API process and a worker process, received by a real OTLP/HTTP receiver. */
import { execFile } from 'node:child_process';
import { request as httpRequest, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';
import { startHttpServer, type HttpServer } from '../harness/http-server.ts';
import { until } from '../harness/until.ts';
import { startOtlpReceiver, type OtlpReceiver, type ReceivedSpan } from './otlp-receiver.ts';

const generate = '/api/v1/studio/image/generate';
let receiver: OtlpReceiver;
let gateway: TestGateway;
let api: SpawnedProcess;
let worker: SpawnedProcess;
/** Requests to the provider, recorded by a proxy between the gateway and the sandbox. */
const sentToProvider: { path: string; headers: IncomingHttpHeaders }[] = [];
let proxy: HttpServer;
const forward: RequestListener = (request, response) => {
  sentToProvider.push({ path: request.url ?? '', headers: request.headers });
  const onward = httpRequest(
    `${gateway.sandbox.url}${request.url}`,
    { method: request.method, headers: request.headers },
    (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    },
  );
  request.pipe(onward.on('error', () => response.destroy()));
};

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  // Its processes are traced.
  gateway = await startGateway({ worker: false });
  proxy = await startHttpServer(forward);
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20c2VjcmV0',
    OTEL_BSP_SCHEDULE_DELAY: '100',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test%20env',
    FAL_QUEUE_URL: `${proxy.url}/fal/queue`,
    LOG_LEVEL: 'info',
    API_PORT: '0',
    // Only the provider's notification wakes a job, so that its span has the link.
    FIRST_CHECK_MAX_MS: '600000',
  };
  api = await gateway.spawn('api', env);
  // The provider notifies the API that is traced.
  const publicUrl = `http://127.0.0.1:${api.port}`;
  worker = await gateway.spawn('worker', { ...env, PUBLIC_BASE_URL: publicUrl });
});
afterAll(async () => {
  await gateway.expectSettled();
  await gateway.close();
  proxy.close();
  receiver.close();
});

async function call(path: string, body: object, traceparent?: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${api.port}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.caller.key}`,
      'content-type': 'application/json',
      ...(traceparent !== undefined && { traceparent }),
    },
    body: JSON.stringify(body),
  });
}

const hello = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'hello' }] };

/** Waits for the span of a response's request whose name begins with this text. */
function untilSpan({ headers }: Response, begins: string): Promise<ReceivedSpan> {
  const id = headers.get('x-request-id');
  const isSpan = ({ name, attributes }: ReceivedSpan): boolean =>
    name.startsWith(begins) && attributes['request.id'] === id;
  return until(() => receiver.spans.find(isSpan));
}

const readTrace = (traceId: string): ReceivedSpan[] =>
  receiver.spans.filter((span) => span.traceId === traceId);

describe('the trace of a job', () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const callerSpan = '00f067aa0ba902b7';
  const findSpan = (name: string) => readTrace(traceId).find((span) => span.name === name);

  it('reaches from the caller’s span to the ledger, with each span below its cause', async () => {
    const answer = await call(generate, { prompt: 'a jetty' }, `00-${traceId}-${callerSpan}-00`);
    expect(answer.status).toBe(200);
    await expect
      .poll(() => findSpan(`POST ${generate}`) && findSpan('activity charge'))
      .toBeDefined();

    const parents: Record<string, string> = {
      'workflow.start imageGenerate': `POST ${generate}`,
      'activity reserve': 'workflow.start imageGenerate',
      'ledger.reserve': 'activity reserve',
      'activity submit': 'workflow.start imageGenerate',
      'provider.submit fal': 'activity submit',
      'activity charge': 'workflow.start imageGenerate',
      'ledger.settle': 'activity charge',
    };
    expect(findSpan(`POST ${generate}`)?.parentSpanId).toBe(callerSpan);
    for (const [name, parent] of Object.entries(parents)) {
      expect(findSpan(name)?.parentSpanId, name).toBe(findSpan(parent)?.spanId);
    }
    const store = findSpan('storage.store');
    const above = readTrace(traceId).find((span) => span.spanId === store?.parentSpanId);
    expect(above?.name).toBe('activity store');
  });

  it('is one trace over both processes, with ids and without contents', () => {
    const spans = readTrace(traceId);
    expect(new Set(spans.map((span) => span.instance)).size).toBe(2);
    const services = new Set(spans.map((span) => span.service));
    expect(services).toEqual(new Set(['studio-gateway-api', 'studio-gateway-worker']));
    for (const { resource } of spans) {
      expect(resource).toMatchObject({
        'service.namespace': 'studio-gateway',
        'service.version': expect.stringMatching(/^\d+\.\d+\.\d+$/),
        'deployment.environment.name': 'test env',
      });
    }
    expect(JSON.stringify(spans)).not.toContain('jetty');
    const start = spans.find((span) => span.name.startsWith('workflow.start'));
    expect(start?.attributes['workflow.id']).toMatch(/^job_/);
    expect(receiver.headers[0]?.['authorization']).toBe('Basic c2VjcmV0');
  });

  it('has a span of the whole job, with a link to the provider notification', async () => {
    const job = (): ReceivedSpan | undefined =>
      readTrace(traceId).find((span) => span.name.startsWith('generate_content '));
    await expect.poll(job).toBeDefined();
    expect(job()).toMatchObject({
      parentSpanId: findSpan('workflow.start imageGenerate')?.spanId,
      service: 'studio-gateway-worker',
      attributes: {
        'gen_ai.operation.name': 'generate_content',
        'gen_ai.provider.name': 'fal',
        'gen_ai.request.model': expect.any(String),
        'gen_ai.usage.cost': expect.any(Number),
        'gateway.job.id': expect.stringMatching(/^job_/),
        'gateway.job.status': 'completed',
        'gateway.organization.id': gateway.caller.organizationId,
        'gateway.key.id': gateway.caller.keyId,
      },
    });
    const [link] = job()?.links ?? [];
    const linked = (): ReceivedSpan | undefined =>
      receiver.spans.find(({ spanId }) => spanId === link?.spanId);
    const name = 'POST /hooks/:provider/:jobId/:callIndex/:mac';
    await expect.poll(linked).toMatchObject({ name, traceId: link?.traceId });
  });

  it('is not started for probes, documents and the console', async () => {
    for (const path of ['/healthz', '/readyz', '/docs', '/console', '/console/assets/none.js'])
      await fetch(`http://127.0.0.1:${api.port}${path}`);
    await untilSpan(await call(generate, { prompt: '' }), 'POST');
    const names = receiver.spans.map(({ name }) => name);
    expect(names.filter((name) => /healthz|readyz|docs|console/.test(name))).toEqual([]);
  });

  it('has its id in the log lines of its job', async () => {
    const find = ({ lines }: SpawnedProcess, msg: string) =>
      lines.find((line) => line.msg === msg && line['traceId'] === traceId);
    await expect.poll(() => find(api, 'request.answered')).toBeDefined();
    await expect.poll(() => find(worker, 'reservation.charged')).toBeDefined();
    expect(find(api, 'request.answered')?.['spanId']).toBe(findSpan(`POST ${generate}`)?.spanId);
    expect(find(worker, 'reservation.charged')?.['spanId']).toBe(
      findSpan('activity charge')?.spanId,
    );
  });

  it('starts in the gateway if the caller sends no valid trace', async () => {
    for (const traceparent of [undefined, 'not a traceparent']) {
      const answer = await call(generate, { prompt: '' }, traceparent);
      expect(answer.status).toBe(400);
      const { parentSpanId = '', traceId: ownTraceId } = await untilSpan(answer, 'POST');
      expect(parentSpanId).toBe('');
      expect(ownTraceId).toMatch(/^[0-9a-f]{32}$/);
    }
  });

  it('is not sent to providers', () => {
    expect(sentToProvider.length).toBeGreaterThan(0);
    for (const { headers } of sentToProvider) {
      expect(headers).not.toHaveProperty('traceparent');
      expect(headers).not.toHaveProperty('baggage');
    }
  });
});

describe('the trace of a chat', () => {
  it('covers its reservation, its provider call and its settlement', async () => {
    const answer = await call('/api/v1/chat', hello);
    expect(answer.status).toBe(200);
    const { traceId } = await untilSpan(answer, 'POST /api/v1/chat');
    const names = ['ledger.reserve', 'chat gpt-5-mini', 'provider.chat openai', 'ledger.settle'];
    await expect
      .poll(() => readTrace(traceId).map(({ name }) => name))
      .toEqual(expect.arrayContaining(names));
  });

  it.each([false, true])(
    'follows the conventions for generative AI (streamed: %s)',
    async (stream) => {
      const message = { role: 'user', content: 'a confidential lighthouse' };
      const response = await call('/api/v1/chat', {
        model: 'gemini-2.5-flash',
        messages: [message],
        max_tokens: 100,
        stream,
      });
      const text = await response.text();
      const span = await untilSpan(response, 'chat ');
      const { attributes } = span;
      const credits = Number(/"creditsConsumed":([\d.]+)/.exec(text)?.[1]);
      expect(span).toMatchObject({ name: 'chat gemini-2.5-flash', kind: 3 });
      expect(attributes).toMatchObject({
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'gcp.gemini',
        'gen_ai.request.model': 'gemini-2.5-flash',
        'gen_ai.request.max_tokens': 100,
        'gen_ai.request.stream': stream,
        'gen_ai.response.model': expect.any(String),
        'gen_ai.response.id': expect.any(String),
        'gen_ai.response.finish_reasons': ['stop'],
        'gen_ai.usage.input_tokens': Number(/"inputTokens":(\d+)/.exec(text)?.[1]),
        'gen_ai.usage.output_tokens': Number(/"outputTokens":(\d+)/.exec(text)?.[1]),
        'gateway.credits.charged': credits,
        'gateway.organization.id': gateway.caller.organizationId,
        'gateway.key.id': gateway.caller.keyId,
      });
      expect(attributes['gen_ai.usage.cost']).toBeCloseTo(credits * 0.01);
      const firstChunk = attributes['gen_ai.response.time_to_first_chunk'];
      expect(typeof firstChunk).toBe(stream ? 'number' : 'undefined');
      const children = receiver.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId);
      expect(children.map(({ name }) => name)).toContain('provider.chat google');
      expect(JSON.stringify(receiver.spans)).not.toContain('lighthouse');
    },
  );

  it('counts the cached and the reasoning tokens', async () => {
    const request = {
      model: 'gpt-5-mini',
      reasoning_effort: 'low',
      messages: [
        { role: 'system', content: 'Answer as a keeper of a lighthouse. '.repeat(400) },
        { role: 'user', content: 'What lights a harbour?' },
      ],
    };
    await call('/api/v1/chat', request);
    const response = await call('/api/v1/chat', request);
    const text = await response.text();
    const read = (field: string) => Number(new RegExp(`"${field}":(\\d+)`).exec(text)?.[1]);
    const [cached, reasoning] = [read('cachedInputTokens'), read('reasoningTokens')];
    expect(Math.min(cached, reasoning)).toBeGreaterThan(0);
    expect(await untilSpan(response, 'chat ')).toMatchObject({
      attributes: {
        'gen_ai.usage.cache_read.input_tokens': cached,
        'gen_ai.usage.reasoning.output_tokens': reasoning,
      },
    });
  });

  it('contains the error code of a failed chat', async () => {
    await gateway.sandbox.inject({ match: 'a broken lens', faults: 'fail:400' });
    const messages = [{ role: 'user', content: 'a broken lens' }];
    const response = await call('/api/v1/chat', { ...hello, messages });
    const { error } = (await response.json()) as { error: string };
    expect(await untilSpan(response, 'chat ')).toMatchObject({
      status: { code: 2 },
      attributes: { 'error.type': error },
    });
  });
});

describe('the exporter', () => {
  it('is loaded only with a collector, and sends protobuf', async () => {
    const root = fileURLToPath(new URL('../../', import.meta.url));
    const script = `
      import { registerHooks } from 'node:module';
      const loaded = [];
      registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
      const { openTelemetry } = await import('${root}platform/telemetry.ts');
      await import('${root}process/services.ts');
      const config = process.argv[1] ? { OTEL_EXPORTER_OTLP_ENDPOINT: process.argv[1],
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf', OTEL_TRACES_SAMPLER_ARG: 1,
        OTEL_BSP_SCHEDULE_DELAY: 100 } : {};
      const { closeTracing } = await openTelemetry(config, 'api');
      const { inSpan } = await import('${root}platform/telemetry.ts');
      await inSpan({ name: 'in protobuf' }, async () => {});
      await closeTracing();
      console.log(loaded.filter((url) => /opentelemetry.(sdk-trace|exporter)/.test(url)).length);`;
    const count = async (...endpoint: string[]): Promise<number> => {
      const args = ['--input-type=module', '-e', script, ...endpoint];
      return Number((await promisify(execFile)(process.execPath, args)).stdout.trim());
    };
    expect(await count()).toBe(0);
    expect(await count(receiver.url)).toBeGreaterThan(0);
    expect(receiver.encoded.join()).toContain('in protobuf');
  });
});
