/** Calls of a pipeline step, completed with the results of earlier steps: inputs and prices. */
import { describe, expect, it } from 'vitest';
import type { PlannedCall, StoredArtifact } from '../../domain/job-plan.ts';
import type { MeasuredRule } from '../../domain/measured-price.ts';
import { asRecord, type JsonObject } from '../../domain/json.ts';
import {
  completeCalls,
  recordingSuffix,
  type OpenPrice,
  type PipelineStep,
  type ReferenceValue,
  type StepReference,
} from '../../domain/pipeline-plan.ts';

const token = 'token-8c1f';
const reference: StepReference = {
  token,
  field: 'steps.1.body.text',
  from: 'first',
  takes: 'text',
  output: { callIndex: 0, artifactIndex: 0 },
  text: { name: 'text', min: 2, max: 40 },
};
const step: PipelineStep = {
  id: 'second',
  use: 'voiceover/generate',
  type: 'voiceover',
  model: null,
  calls: [1, 1],
  assembly: null,
  assembledIndex: null,
  outputs: [],
  after: ['first'],
  references: [reference],
  priceMicro: 100,
  deadlineMs: 1000,
};
const call = (input: JsonObject, open?: OpenPrice): PlannedCall => ({
  index: 1,
  meter: 'character',
  quantity: 1,
  unitPriceMicro: 10,
  firstCheckMs: 1000,
  inputFrom: null,
  required: true,
  output: { medium: 'audio', format: null },
  routes: [
    {
      provider: 'fal',
      providerEndpoint: 'fal-ai/x',
      taskQueue: 'studio',
      notifies: true,
      submitTimeoutMs: 1000,
      input,
    },
  ],
  ...(open && { open }),
});
const artifact = (durationSeconds: number): StoredArtifact => ({
  storageKey: 'org/job/0-0.mp3',
  contentType: 'audio/mpeg',
  sizeBytes: 1,
  sha256: '',
  width: null,
  height: null,
  durationSeconds,
  hasAudio: null,
  contentCredentials: 'none',
});
/** Price of 0.00001 credits for each started second. */
const bySecond: MeasuredRule = {
  kind: 'size',
  subject: 'video',
  scale: 1,
  bySecond: true,
  limits: {},
  rows: [{ usd: 1e-7 }],
  each: null,
  rounding: 'none',
};
const complete = (input: JsonObject, value: ReferenceValue, open?: OpenPrice) => {
  const [completed] = completeCalls(step, [call(input, open)], new Map([[token, value]]));
  return { ...completed, input: asRecord(completed?.routes[0]?.input) };
};
const text = (content: string): ReferenceValue => ({ kind: 'text', text: content });

describe('the calls of a step', () => {
  it.each(['It costs $5.', '$& and $1', "$$ $' $`", 'café 🎈'])(
    'contain the text of an earlier step as it is: %s',
    (content) => {
      const { input } = complete({ text: token, list: [`a ${token}`] }, text(content));
      expect(input).toEqual({ text: content, list: [`a ${content}`] });
    },
  );

  it('contain the storage key of a file, and a composition plan as an object', () => {
    const file = { kind: 'file', artifact: artifact(3) } as const;
    const { input } = complete({ url: `storage:${token}`, key: token + recordingSuffix }, file);
    expect(input).toEqual({ url: 'storage:org/job/0-0.mp3', key: 'org/job/0-0.mp3' });
    const plan = { sections: [{ duration_ms: 4200 }] };
    expect(complete({ plan: token }, { kind: 'composition', plan }).input).toEqual({ plan });
  });

  it.each<[string, ReferenceValue, OpenPrice, number]>([
    ['characters of a text', text('é🎈c'), { token, kind: 'characters', others: 2 }, 5],
    [
      'started seconds of a recording',
      { kind: 'file', artifact: artifact(3.1) },
      { token, kind: 'seconds' },
      4,
    ],
    [
      'started seconds of a plan',
      { kind: 'composition', plan: { sections: [{ duration_ms: 4200 }, { duration_ms: 900 }] } },
      { token, kind: 'composition' },
      6,
    ],
    [
      'started seconds of a film by its size',
      { kind: 'file', artifact: artifact(3.1) },
      { token, kind: 'media', inputs: [token], rule: bySecond, usdPerCredit: 0.01 },
      4,
    ],
  ])('cost what their input has: %s', (_what, value, open, quantity) => {
    expect(complete({ text: token }, value, open)).toMatchObject({ quantity, unitPriceMicro: 10 });
  });

  it.each([
    ['at its maximum', 8, null],
    ['above its maximum', 9, 'PRICE_LIMIT_EXCEEDED'],
  ])('are rejected if the price of the step is exceeded: %s', (_what, others, code) => {
    const open = { token, kind: 'characters', others } as const;
    const run = () => complete({ text: token }, text('ab'), open);
    if (code === null) expect(run().quantity).toBe(10);
    else expect(run).toThrow(expect.objectContaining({ code }));
  });

  it.each(['a', 'x'.repeat(41), '   '])(
    'are rejected if a text is too short or too long: %j',
    (content) => {
      expect(() => complete({ text: token }, text(content))).toThrow(
        expect.objectContaining({ code: 'INVALID_REQUEST' }),
      );
    },
  );
});
