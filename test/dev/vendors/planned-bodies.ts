/** The bodies that the plans of all capabilities, models and routes contain, for every value that a field publishes. */
import { z } from 'zod';
import type { MeasuredPrice } from '../../../domain/draft-plan.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { priceMeasured } from '../../../domain/measured-price.ts';
import { capabilities } from '../../../studio/capabilities/capability-registry.ts';
import type { Capability } from '../../../studio/capabilities/capability.ts';
import type { PublishedModel } from '../../../studio/models/published-models.ts';
import { planRequest } from '../../harness/capability.ts';

/** A body for an endpoint of a provider. */
export interface PlannedBody {
  provider: string;
  endpoint: string;
  input: Record<string, unknown>;
}

type Body = Record<string, unknown>;

const picture = 'https://example.com/a.png';
const plan = {
  positive_global_styles: ['calm'],
  negative_global_styles: ['loud'],
  sections: [
    {
      section_name: 'verse',
      positive_local_styles: ['piano'],
      negative_local_styles: ['drums'],
      duration_ms: 10_000,
      lines: ['the sea'],
    },
  ],
};

/** Values of fields that neither the rules of a model nor the schema list. */
const further: Record<string, readonly unknown[]> = {
  seed: [7],
  negativePrompt: ['people'],
  imageUrl: [picture],
  endImageUrl: [picture],
  imageUrls: [[picture]],
  referenceUrls: [[picture]],
  maskUrl: [picture],
  imageSize: ['square', { width: 1024, height: 768 }],
  stability: [0, 1],
  similarityBoost: [0, 1],
  durationSeconds: [3, 10],
  promptInfluence: [0, 1],
  language: ['en'],
  composition_plan: [plan],
  source_composition_plan: [plan],
  music_length_ms: [10_000],
  coverPrompt: ['a lighthouse'],
};

interface SchemaNode {
  enum?: unknown[];
  type?: string;
  minimum?: number;
  maximum?: number;
}

/** Returns the values of each field of a request that are tried, by the rules of a model and by the schema. */
function listValues({ request }: Capability, model: PublishedModel | undefined) {
  const { properties = {} } = z.toJSONSchema(request, { io: 'input', unrepresentable: 'any' });
  return Object.entries(properties).map(([field, node]): [string, readonly unknown[]] => {
    const { oneOf, min, max } = model?.parameters[field] ?? {};
    const schema = node as SchemaNode;
    const bounds = [min, max].filter((bound) => bound !== undefined);
    const published = oneOf ?? (bounds.length > 0 ? bounds : undefined);
    const described = schema.enum ?? (schema.type === 'boolean' ? [true, false] : []);
    return [field, [...(published ?? described), ...(further[field] ?? [])]];
  });
}

/** Returns the request with each value of each field: alone, and with the values before it. */
function makeRequests(capability: Capability, model: PublishedModel | undefined): Body[] {
  const first: Body = { ...capability.example, ...model?.selectedBy };
  // The example may contain fields of another model.
  const needed = z.toJSONSchema(capability.request, { io: 'input', unrepresentable: 'any' });
  const least: Body = Object.fromEntries(
    Object.entries(first).filter(
      ([field]) => needed.required?.includes(field) || field in (model?.selectedBy ?? {}),
    ),
  );
  const requests = [first, least];
  let all = least;
  for (const [field, values] of listValues(capability, model)) {
    for (const value of values) {
      requests.push({ ...first, [field]: value }, { ...least, [field]: value });
      const more = { ...all, [field]: value };
      if (planBodies(capability, more).length > 0) all = more;
      requests.push(all);
    }
  }
  return requests;
}

/** Returns the part of a body that is built from measured inputs. */
function measureInput(price: number | MeasuredPrice): object {
  if (typeof price === 'number') return {};
  const size = { width: 320, height: 200, durationSeconds: 1, hasAudio: true };
  const measured = priceMeasured(
    price.rule,
    price.inputs.map(({ url }) => ({ ...size, url })),
  );
  return 'input' in measured ? { ...measured.input } : {};
}

/** Returns the bodies of a request; none if the request is rejected. */
function planBodies(capability: Capability, request: Body): PlannedBody[] {
  try {
    return planRequest(capability, request).calls.flatMap(({ routes, inputFrom, unitPriceUsd }) =>
      routes.map(({ provider, providerEndpoint, input }) => ({
        provider,
        endpoint: providerEndpoint,
        input: {
          ...input,
          ...measureInput(unitPriceUsd),
          // The result of an earlier call takes this place.
          ...(inputFrom && { [inputFrom.field]: picture }),
        },
      })),
    );
  } catch (error) {
    if (error instanceof GatewayError || error instanceof z.ZodError) return [];
    throw error;
  }
}

/** Returns all distinct bodies. */
export function plannedBodies(): PlannedBody[] {
  const bodies = capabilities.flatMap((capability) =>
    (capability.models ?? [undefined]).flatMap((model) =>
      makeRequests(capability, model).flatMap((request) => planBodies(capability, request)),
    ),
  );
  return [...new Map(bodies.map((body) => [JSON.stringify(body), body])).values()];
}
