/** What one fal endpoint is to the sandbox: an id, an input schema and a way to make media. */
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

/** Media of a finished request and how its result describes them. */
export interface Generated {
  media: Media[];
  output: (files: FalFile[]) => unknown;
}

/** What a run may use. */
export interface GenerationContext {
  /** Stands in for a seed that the input does not give; the same for one request, always. */
  requestSeed: number;
  pictures: Pictures;
  films: Films;
  /** What the request is to go wrong with. */
  faults: readonly Fault[];
}

/** An endpoint of the sandbox. */
export interface Endpoint {
  id: string;
  /** Generation time as a multiple of the sandbox's image latency. */
  latencyFactor: number;
  /** Makes the media of one request. @throws ModelError when the body or an input is refused. */
  generate: (body: unknown, context: GenerationContext) => Promise<Generated>;
}

interface EndpointDefinition<Schema extends z.ZodType> {
  id: string;
  latencyFactor?: number;
  input: Schema;
  run: (input: z.output<Schema>, context: GenerationContext) => Promise<Generated>;
}

/** Ties a schema to its run: a body that the schema refuses never reaches `run`. */
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

/** The root app of an endpoint id: its first two segments, where status and result live. */
export function rootAppId(endpointId: string): string {
  return endpointId.split('/').slice(0, 2).join('/');
}
