/** Endpoint of fal in the sandbox: an id, an input schema and a function that makes media. */
import type { z } from 'zod';
import type { Pictures } from '../media/pictures.ts';
import type { Films } from '../media/film.ts';
import type { Fault } from '../faults.ts';
import type { Media } from '../media/media.ts';
import { validationDetail } from '../pydantic.ts';
import { ModelError } from './outcome.ts';

/** fal's File object. */
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

/** Media of a finished request, and their description in its result. */
export interface Generated {
  media: Media[];
  output: (files: FalFile[]) => unknown;
}

/** Services of a run. */
export interface GenerationContext {
  /** Seed of an input without one; always the same for one request. */
  requestSeed: number;
  pictures: Pictures;
  films: Films;
  /** Faults of the request. */
  faults: readonly Fault[];
}

/** An endpoint of the sandbox. */
export interface Endpoint {
  id: string;
  /** Generation time as a multiple of the sandbox's image latency. */
  latencyFactor: number;
  /**
   * Makes the media of one request.
   * @throws ModelError if the body or an input is rejected
   */
  generate: (body: unknown, context: GenerationContext) => Promise<Generated>;
}

interface EndpointDefinition<Schema extends z.ZodType> {
  id: string;
  latencyFactor?: number;
  input: Schema;
  run: (input: z.output<Schema>, context: GenerationContext) => Promise<Generated>;
}

/** Makes an endpoint whose `run` only receives bodies that match the schema. */
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

/**
 * Returns the root app of an endpoint id: its first two segments, under which status and result are
 * served.
 */
export function rootAppId(endpointId: string): string {
  return endpointId.split('/').slice(0, 2).join('/');
}
