/**
 * Interface of a Studio capability: path, request schema, plan and presentation. Each capability is
 * one file, and other code uses it only through this interface.
 */
import type { z } from 'zod';
import type { Json, JsonObject } from '../../domain/json.ts';
import type { CallOutputs, StoredArtifact } from '../../domain/job-plan.ts';
import type { DraftPlan, Recording, RecordingSource } from '../../domain/draft-plan.ts';
import type { PublishedModel } from '../models/published-models.ts';

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
}

/** Definition of a Studio capability; `Request` is the type of the parsed request body. */
interface CapabilityDefinition<Request> {
  /** Temporal workflow type; also the job's `type`. */
  type: string;
  /** Path below /api/v1, e.g. `/studio/image/generate`. */
  path: `/studio/${string}`;
  /** Medium of the output, which determines the scope that an API key needs. */
  medium: 'image' | 'video' | 'audio';
  /** Summary in the API reference. */
  summary: string;
  /** With `bare`, the response is the data alone, and headers contain the credits. */
  envelope?: 'bare';
  request: z.ZodType<Request>;
  /**
   * File part allowed in a multipart/form-data request. The request then receives the id of the
   * file as `fileId`.
   */
  upload?: { field: string; bytesMax: number };
  /** Returns the recording that a request refers to; its duration determines the price. */
  recording?: (request: Request) => RecordingSource;
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
  plan: (request: Request, recording?: Recording) => DraftPlan;
  /**
   * Returns whether the result of a request is persisted. Omit this function if every result is
   * persisted. A result that is not persisted can be read for an hour.
   */
  persistsResult?: (request: JsonObject) => boolean;
  /** Builds the `data` of the response (spec §4.6). */
  present: (job: FinishedJob) => Record<string, unknown>;
}

/** Capability as other code sees it. Only the capability's own file knows its request type. */
export type Capability = CapabilityDefinition<JsonObject>;

/** Returns the scope that the caller's API key needs. */
export function getRequiredScope({
  medium,
}: Pick<Capability, 'medium'>): `studio:${Capability['medium']}` {
  return `studio:${medium}`;
}

/**
 * Returns whether the endpoint responds with 202 immediately. It does so for `async` requests, and
 * for all video requests, because videos take minutes.
 */
export function respondsWith202(
  { medium }: Pick<Capability, 'medium'>,
  request: JsonObject,
): boolean {
  return medium === 'video' || request['async'] === true;
}

/** Declares a capability; `plan` receives the parsed request. */
export function defineCapability<Request>(definition: CapabilityDefinition<Request>): Capability {
  // oxlint-disable-next-line no-unsafe-type-assertion -- `plan` only receives requests that `request` parsed
  return definition as unknown as Capability;
}
