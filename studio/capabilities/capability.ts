/**
 * Interface of a Studio capability: path, request schema, plan and presentation. Each capability is
 * one file, and other code uses it only through this interface.
 */
import type { z } from 'zod';
import { asRecord, asText, type Json, type JsonObject } from '../../domain/json.ts';
import type { JobStep } from '../../domain/job-record.ts';
import type { CallOutputs, StoredArtifact } from '../../domain/job-plan.ts';
import type { DraftPlan, Recording, RecordingSource } from '../../domain/draft-plan.ts';
import type { PublishedModel } from '../models/published-models.ts';

/** Medium of a capability; `mixed` for pipelines, whose steps have their own. */
export type Medium = 'image' | 'video' | 'audio';

/** Result that a step of a pipeline may take from an earlier one. */
export type Handover = Medium | 'text' | 'compositionPlan';

/** Finished job, as passed to `present`. */
export interface FinishedJob {
  request: JsonObject;
  model: string | null;
  outputs: CallOutputs[];
  /** Returns the URL of a stored artifact, signed for this response. */
  urlOf: (artifact: StoredArtifact) => string;
  /** Time at which the URLs of this response expire, in ISO 8601. */
  urlsExpireAt: string;
  /** True if the result was not persisted and has expired. An expired result has no URLs. */
  urlsHaveExpired: boolean;
  /** Returns the content of a JSON artifact; null in a list of jobs. */
  readDocument: (artifact: StoredArtifact) => Json;
  /** Steps of a pipeline; null for other jobs. */
  steps: JobStep[] | null;
}

/** Definition of a Studio capability; `Request` is the type of the parsed request body. */
interface CapabilityDefinition<Request> {
  /** Temporal workflow type; also the job's `type`. */
  type: string;
  /** Path below /api/v1, e.g. `/studio/image/generate`. */
  path: `/studio/${string}`;
  /** Medium of the output, which determines the scope that an API key needs. */
  medium: Medium | 'mixed';
  /** Summary in the API reference. */
  summary: string;
  /** With `bare`, the response is the data alone, and headers contain the credits. */
  envelope?: 'bare';
  request: z.ZodType<Request>;
  /** Schema of the request in descriptions. Defaults to `request`. */
  describedRequest?: z.ZodType;
  /** Request fields that may take the result of an earlier step of a pipeline, and what they take. */
  takes?: Readonly<Record<string, readonly Handover[]>>;
  /**
   * Results that a later step of a pipeline may take: the output, which defaults to a file of the
   * medium, and texts by the names of their fields.
   */
  yields?: { output: Handover | null; texts: readonly string[] };
  /**
   * File part allowed in a multipart/form-data request. The request then receives the id of the
   * file as `fileId`.
   */
  upload?: { field: string; bytesMax: number };
  /** Returns the recordings that a request refers to; their durations determine the price. */
  recordings?: (request: Request) => RecordingSource[];
  /** Valid request for the API reference. */
  example: Record<string, unknown>;
  /** Schema of the `data` that `present` returns. */
  data: z.ZodType;
  /** Models or services that a request may choose; the first is the default. */
  models?: readonly PublishedModel[];
  /**
   * Plans the calls of a request, with providers and prices.
   * @throws GatewayError UNKNOWN_MODEL, UNSUPPORTED_PARAMETER, CONFLICTING_FIELDS, INVALID_REQUEST
   */
  plan: (request: Request, recordings?: readonly Recording[]) => DraftPlan;
  /**
   * Returns whether the result of a request is persisted. Omit this function if every result is
   * persisted. A result that is not persisted can be read for an hour.
   */
  persistsResult?: (request: JsonObject) => boolean;
  /** Builds the `data` of the response (spec §4.6). */
  present: (job: FinishedJob) => Record<string, unknown>;
}

/** Capability as other code sees it. Only the capability's own file knows its request type. */
export interface Capability extends Omit<CapabilityDefinition<JsonObject>, 'plan'> {
  /** Plans the calls of a request. Recordings are found later (`DraftPlan.recordings`). */
  plan: (request: JsonObject) => DraftPlan;
}

/** Returns the name with which steps and items select a capability, e.g. `image/generate`. */
export const useOf = ({ path }: Pick<Capability, 'path'>): string => path.slice('/studio/'.length);

/** Finds the capability that a step or item selects with `use`; undefined if there is none. */
export const findByUse = (kinds: readonly Capability[], use: string): Capability | undefined =>
  kinds.find((capability) => useOf(capability) === use);

/** Returns what a later step of a pipeline may take from a step of this capability. */
export function yieldsOf({ yields, medium }: Capability): NonNullable<Capability['yields']> {
  return yields ?? { output: medium === 'mixed' ? null : medium, texts: [] };
}

/** Returns the scope that the caller's API key needs. A pipeline needs those of its steps. */
export function getRequiredScope({
  medium,
}: Pick<Capability, 'medium'>): `studio:${Medium}` | 'studio:*' {
  return medium === 'mixed' ? 'studio:*' : `studio:${medium}`;
}

/**
 * Returns whether the endpoint responds with 202 immediately. It does so for `async` requests, for all
 * video requests and pipelines with a video step, because videos take minutes, and for pipelines with
 * a step that waits for a decision.
 */
export function respondsWith202(
  { medium }: Pick<Capability, 'medium'>,
  request: JsonObject,
): boolean {
  if (medium === 'mixed' && Array.isArray(request['steps'])) {
    const isLong = request['steps']
      .map(asRecord)
      .some(({ use, approve }) => approve !== undefined || asText(use).startsWith('video/'));
    return isLong || request['async'] === true;
  }
  return medium === 'video' || request['async'] === true;
}

/** Declares a capability; `plan` receives the parsed request. */
export function defineCapability<Request>(definition: CapabilityDefinition<Request>): Capability {
  // oxlint-disable-next-line no-unsafe-type-assertion -- `plan` only receives requests that `request` parsed
  const capability = definition as unknown as CapabilityDefinition<JsonObject>;
  const { plan, recordings } = capability;
  return {
    ...capability,
    plan(request) {
      const sources = recordings?.(request) ?? [];
      const draft = plan(request);
      if (sources.length === 0) return draft;
      return { ...draft, recordings: { sources, complete: (found) => plan(request, found) } };
    },
  };
}
