/** Defines fal's endpoints: an id, an input schema, and a function that generates media. */
import type { z } from 'zod';
import type { Pictures } from '../media/pictures.ts';
import type { Films } from '../media/film.ts';
import type { Fault } from '../faults.ts';
import type { Media } from '../media/media.ts';
import { validationDetail } from '../pydantic.ts';
import { ModelError } from './outcome.ts';

/** File object in fal's results. */
export interface FalFile {
  url: string;
  content_type: string;
  file_name: string;
  file_size: number;
  width: number;
  height: number;
  duration?: number;
  fps?: number;
  num_frames?: number;
}

/** Generated media, and a function that builds the result from their File objects. */
export interface Generated {
  media: Media[];
  output: (files: FalFile[]) => unknown;
}

/** Seed, faults and media generators for a request. */
export interface GenerationContext {
  /** Seed to use if the input has none; derived from the request id. */
  requestSeed: number;
  pictures: Pictures;
  films: Films;
  faults: readonly Fault[];
}

/** Endpoint of fal. */
export interface Endpoint {
  id: string;
  /** Generation time as a multiple of SANDBOX_LATENCY_MS. */
  latencyFactor: number;
  /**
   * Generates the media of a request.
   * @throws ModelError if the body or an input is invalid
   */
  generate: (body: unknown, context: GenerationContext) => Promise<Generated>;
}

interface EndpointDefinition<Schema extends z.ZodType> {
  id: string;
  latencyFactor?: number;
  input: Schema;
  run: (input: z.output<Schema>, context: GenerationContext) => Promise<Generated>;
}

/** Creates an endpoint. `run` only receives bodies that match the schema. */
export function defineEndpoint<Schema extends z.ZodType>(
  definition: EndpointDefinition<Schema>,
): Endpoint {
  const { id, latencyFactor = 1, input, run } = definition;
  return {
    id,
    latencyFactor,
    generate: async (body, context) => {
      const parsed = input.safeParse(body);
      if (!parsed.success) throw new ModelError(422, validationDetail(parsed.error, body));
      return run(parsed.data, context);
    },
  };
}

/** Returns the first two segments of an endpoint id, under which fal serves statuses and results. */
export function rootAppId(endpointId: string): string {
  return endpointId.split('/').slice(0, 2).join('/');
}
