import { describe, expect, it } from 'vitest';
import { imageModels } from '../../studio/models/image-models.ts';
import { defaultVoiceName, voices } from '../../studio/models/voices.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { useGateway } from '../harness/gateway.ts';
import { isAccepted } from '../harness/capability.ts';

interface Rule {
  oneOf?: unknown[];
  min?: number;
  max?: number;
}
interface Published {
  data: {
    type: string;
    endpoint: string;
    defaultModel: string | null;
    models: { id: string; parameters: Record<string, Rule> }[];
    request: { properties: Record<string, object>; required?: string[] };
  }[];
}

const gateway = useGateway({ settled: 'last' });

describe('GET /studio/models', () => {
  it('lists every endpoint, its fields and its models', async () => {
    const { status, body } = await gateway.call<Published>('/api/v1/studio/models');
    expect(status).toBe(200);
    expect(body.data.map((entry) => entry.endpoint)).toEqual(
      capabilities.map(({ path }) => `POST /api/v1${path}`),
    );
    const generate = body.data.find((entry) => entry.type === 'imageGenerate');
    expect(generate?.defaultModel).toBe('nano-banana');
    expect(generate?.models.map((model) => model.id)).toEqual(imageModels.map((row) => row.id));
    expect(generate?.request.required).toEqual(['prompt']);
    expect(generate?.request.properties['prompt']).toMatchObject({ minLength: 3, maxLength: 2000 });
  });

  it('publishes the limits that the API enforces', async () => {
    const { body } = await gateway.call<Published>('/api/v1/studio/models');
    const bodies: Record<string, object> = {
      imageGenerate: { prompt: 'a tree' },
      imageEdit: { prompt: 'a tree', imageUrls: ['https://example.com/a.png'] },
      imageUpscale: { imageUrl: 'https://example.com/a.png' },
      imageRemoveBackground: { imageUrl: 'https://example.com/a.png' },
      videoGenerate: { prompt: 'a tree' },
    };
    let checked = 0;
    for (const { type, models } of body.data) {
      const capability = capabilities.find((entry) => entry.type === type);
      const base = bodies[type];
      if (!capability || !base) continue;
      for (const { id, parameters } of models) {
        const model = type === 'imageUpscale' ? { service: id } : { model: id };
        const accepts = (field: string, value: unknown) =>
          isAccepted(capability, { ...base, ...model, [field]: value });
        for (const [field, rule] of Object.entries(parameters)) {
          const { oneOf = [], min, max } = rule;
          const valid = [...oneOf, min, max].filter((value) => value !== undefined);
          const invalid = [
            ...(rule.oneOf ? ['something else'] : []),
            ...(min === undefined ? [] : [min - 1]),
            ...(max === undefined ? [] : [max + 1]),
          ];
          expect(
            valid.filter((value) => !accepts(field, value)),
            `${id} ${field}`,
          ).toEqual([]);
          expect(
            invalid.filter((value) => accepts(field, value)),
            `${id} ${field}`,
          ).toEqual([]);
          checked += oneOf.length;
        }
      }
    }
    expect(checked).toBeGreaterThan(100);
  });
});

describe('GET /studio/voices', () => {
  it('lists the voices with one default, and nothing about the provider', async () => {
    const { body } = await gateway.call<object>('/api/v1/studio/voices');
    const data = voices.map(({ name, gender }) => {
      return { name, gender, default: name === defaultVoiceName };
    });
    expect(body).toEqual({ success: true, data });
  });
});
