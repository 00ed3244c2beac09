/**
 * A request has the same price and refusals wherever it stands: sent alone, as a step of a pipeline,
 * as an item of a bulk job, in a pipeline that is an item, and in a step that runs again. The caller has a
 * price of its own, so each way must read the price book.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { isRecord } from '../../domain/json.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { useOf, type Capability } from '../../studio/capabilities/capability.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { drawDisc, makeFilm } from '../harness/media.ts';
import { recordTone } from '../harness/recordings.ts';
import { uploadFile } from '../harness/uploads.ts';
import { createPriceCalls, readsPrices } from './price-calls.ts';

const gateway = useGateway({ env: readsPrices, media: 'full', credits: 1e6, settled: 'last' });
const prices = createPriceCalls(gateway);

/** Ways to name an input. Items of bulk jobs take no data URL. */
const kinds = ['fileId', 'url', 'dataUrl'] as const;
type Kind = (typeof kinds)[number];
type Body = Record<string, unknown>;
const types = { png: 'image/png', mp3: 'audio/mpeg', mp4: 'video/mp4' };
type Extension = keyof typeof types;

/** Caller without a price of its own. */
let catalogCaller: TestCaller;
/** References to an input, by extension and kind. */
const inputs = new Map<string, string>();
beforeAll(async () => {
  catalogCaller = await gateway.newCaller();
  await prices.add(gateway.caller, { markupPercent: 100 });
  const files: Record<Extension, Uint8Array> = {
    png: await drawDisc(64, 64),
    mp3: await recordTone(3),
    mp4: await makeFilm(),
  };
  for (const [extension, bytes] of Object.entries(files)) {
    const buffer = Buffer.from(bytes);
    const type = types[extension as Extension];
    const { fileId } = await uploadFile(gateway, bytes, { contentType: type });
    inputs.set(`${extension} fileId`, fileId);
    inputs.set(`${extension} url`, gateway.media.put(`/input.${extension}`, buffer));
    inputs.set(`${extension} dataUrl`, `data:${type};base64,${buffer.toString('base64')}`);
  }
});

/** Returns a value with inputs in place of its example URLs. */
function withInputs<Value>(value: Value, kind: Kind): Value {
  const replace = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(replace);
    if (isRecord(part))
      return Object.fromEntries(Object.entries(part).map(([name, item]) => [name, replace(item)]));
    const extension =
      typeof part === 'string' && /^https:\/\/example\.com\/.*\.(\w+)$/.exec(part)?.[1];
    return extension ? (inputs.get(`${extension} ${kind}`) ?? part) : part;
  };
  return replace(value) as Value;
}

const hasInput = ({ example }: Capability): boolean =>
  JSON.stringify(example).includes('https://example.com/');
const cases = capabilities.flatMap((capability) =>
  (hasInput(capability) ? kinds : (['url'] as const)).map((kind) => ({
    type: capability.type,
    kind,
    capability,
  })),
);

interface Answer {
  data: {
    jobId: string;
    bulkId: string;
    credits: number;
    maxCredits: number;
    done: boolean;
    status: string;
    billing: { reserved: number; charged: number };
  };
  error: string;
  details: { path: string; message: string }[];
  invalidItems: unknown;
}
const post = (path: string, body: object) => gateway.call<Answer>(`/api/v1${path}`, { body });
const get = (path: string) => gateway.call<Answer>(`/api/v1${path}`);

const toSteps = (capability: Capability, body: Body) => ({
  steps: [{ id: 'only', use: useOf(capability), body }],
});
/** Wrappers of a request: the path and body that contain it, and the path of its body in them. */
const wrappers = (capability: Capability, body: Body) => ({
  single: { path: capability.path, sent: body, prefix: '' },
  step: { path: '/studio/pipelines', sent: toSteps(capability, body), prefix: 'steps.0.body.' },
  item: {
    path: '/studio/bulk',
    sent: { items: [{ use: useOf(capability), body }] },
    prefix: 'items.0.body.',
  },
  pipelineItem: {
    path: '/studio/bulk',
    sent: { items: [{ use: 'pipelines', body: toSteps(capability, body) }] },
    prefix: 'items.0.body.steps.0.body.',
  },
});
const listAllowed = (capability: Capability, body: Body, kind: Kind) =>
  Object.entries(wrappers(capability, body)).filter(
    ([name]) => kind !== 'dataUrl' || name === 'single' || name === 'step',
  );

/** Runs a request, and returns what its job reserved and charged. */
async function run(path: string, sent: object): Promise<{ jobId: string; billing: object }> {
  const isBulk = path === '/studio/bulk';
  const started = await post(path, isBulk ? sent : { ...sent, async: true });
  expect(started.status, JSON.stringify(started.body)).toBe(202);
  let { jobId } = started.body.data;
  if (isBulk) {
    const { bulkId } = started.body.data;
    while (!(await get(`/studio/bulk/${bulkId}?wait=20`)).body.data.done);
    const items = await gateway.call<{ data: { jobId: string }[] }>(
      `/api/v1/studio/bulk/${bulkId}/items`,
    );
    jobId = items.body.data[0]?.jobId ?? '';
  }
  await gateway.untilDone(jobId);
  const { data } = (await get(`/studio/jobs/${jobId}`)).body;
  expect(data, JSON.stringify(data)).toMatchObject({ status: 'completed' });
  const { reserved, charged } = data.billing;
  return { jobId, billing: { reserved, charged } };
}

describe.each(cases)('$type by $kind', ({ capability, kind }) => {
  it('has the same estimate in each wrapper', async () => {
    const body = withInputs(capability.example, kind);
    const alone = await post(`${capability.path}/estimate`, body);
    expect(alone.status, JSON.stringify(alone.body)).toBe(200);
    const { credits, maxCredits } = alone.body.data;
    // A file belongs to its caller.
    if (kind !== 'fileId') {
      const { key } = catalogCaller;
      const listed = await gateway.call<Answer>(`/api/v1${capability.path}/estimate`, {
        key,
        body,
      });
      expect(credits).toBe(2 * listed.body.data.credits);
    }
    for (const [name, { path, sent }] of listAllowed(capability, body, kind)) {
      const answer = await post(`${path}/estimate`, sent);
      expect(answer.status, `${name} ${JSON.stringify(answer.body)}`).toBe(200);
      // The price of a bulk job is the most that its items are charged.
      const expected = path === '/studio/bulk' ? { credits: maxCredits } : { credits, maxCredits };
      expect(answer.body.data, name).toMatchObject(expected);
      expect(answer.headers.get('x-ignored-fields'), name).toBe(
        alone.headers.get('x-ignored-fields'),
      );
    }
  });

  it('reserves and charges the same in each wrapper, and in a step that runs again', async () => {
    const body = withInputs(capability.example, kind);
    const alone = await run(capability.path, body);
    for (const [name, { path, sent }] of listAllowed(capability, body, kind)) {
      if (name === 'single') continue;
      const wrapped = await run(path, sent);
      expect(wrapped.billing, name).toEqual(alone.billing);
      if (name !== 'step') continue;
      const again = await run(`/studio/jobs/${wrapped.jobId}/resume`, { from: 'only' });
      expect(again.billing, 'resumed').toEqual(alone.billing);
    }
  });
});

/** Changes that make a request invalid. */
const mistakes = (body: Body): Body[] => [
  { ...body, constructor: 1 },
  { ...body, unknownField: 1 },
  ...Object.keys(body).map((name) => ({ ...body, [name]: null })),
  ...Object.entries(body).flatMap(([name, value]): Body[] => {
    const isList = Array.isArray(value);
    const [first] = isList ? value : [value];
    const isUrl = typeof first === 'string' && first.startsWith('http');
    return (isUrl ? ['http://10.0.0.1/a.png', `file_${'0'.repeat(32)}`] : []).map((url) => ({
      ...body,
      [name]: isList ? [url] : url,
    }));
  }),
];

it.each(capabilities)(
  '$type is refused with the same errors in each wrapper',
  async (capability) => {
    for (const body of mistakes(withInputs(capability.example, 'url'))) {
      const alone = await post(`${capability.path}/estimate`, body);
      expect(alone.status, JSON.stringify(body)).toBe(400);
      for (const [name, { path, sent, prefix }] of listAllowed(capability, body, 'url')) {
        const { status, body: answer } = await post(`${path}/estimate`, sent);
        expect(status, name).toBe(400);
        const expected = alone.body.details.map((detail) => ({
          ...detail,
          path: prefix + detail.path,
        }));
        // The error of a bulk job names the first error of each item.
        expect(answer.details, `${name} ${JSON.stringify(body)}`).toEqual(
          path === '/studio/bulk' ? expected.slice(0, 1) : expected,
        );
        if (path !== '/studio/bulk') expect(answer.error).toBe(alone.body.error);
      }
    }
  },
);
