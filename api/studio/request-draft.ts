/**
 * A Studio request as a draft of its plan: read, as JSON or as a form with a file, planned, allowed to this key, its
 * inputs checked. Nothing is started.
 */
import type { Inputs } from '../../activities/inputs/inputs.ts';
import type { Pictures, Recordings } from '../../activities/inputs/carried-files.ts';
import { fieldsError } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { Capability, DraftPlan, Recording } from '../../studio/capability.ts';
import type { Context } from '../context.ts';
import { authorizeModel } from '../middleware/authenticate.ts';
import { parseWith, readJson } from '../middleware/body.ts';
import { parseMetadata } from '../middleware/metadata.ts';
import { receiveForm } from '../middleware/multipart.ts';
import { withoutItems } from './refused-items.ts';
import { parseWebhookUrl } from './webhook-url.ts';

/** A request as a draft of its plan. */
export interface DraftedRequest extends Required<Omit<ReadRequest, 'recording'>> {
  /** Prices that depend on an input are not measured yet. */
  draft: DraftPlan;
}

/** What a request is read and drafted with. */
export type DraftingDeps = ReadingDeps & { inputs: Inputs; read: ReadRequestOf };

/** @throws GatewayError what refuses the request before anything is reserved */
export async function draftRequest(
  ctx: Context,
  capability: Capability,
  deps: DraftingDeps,
): Promise<DraftedRequest> {
  const { caller } = ctx.state;
  const read = await deps.read(ctx, capability, deps);
  const { request, recording, webhookUrl, metadata, sameAs = request } = read;
  const planned = capability.plan(request, recording);
  authorizeModel(caller, planned.model);
  const prepare = (plan: DraftPlan) => deps.inputs.prepare(plan, caller.organizationId);
  const draft = await prepare(planned).catch((error: unknown) =>
    prepare(withoutItems(planned, error)),
  );
  return { request, sameAs, webhookUrl, metadata, draft };
}

/** A request that was read. */
export interface ReadRequest {
  request: JsonObject;
  recording: Recording | undefined;
  /** Whom to tell of the job's end; null: nobody. */
  webhookUrl: string | null;
  /** The caller's own pairs; null where there are none. */
  metadata: Record<string, string> | null;
  /** What a repeat has to say to be the same request; absent: the request itself. */
  sameAs?: JsonObject;
}

/** What a request is read with. */
export interface ReadingDeps {
  recordings: Recordings;
  pictures: Pictures;
  outbound: Outbound;
  /** Takes note of a file that is kept for the request, as soon as it is on its way. */
  onKeeping: (file: Promise<{ storageKey: string }>) => void;
}

/** Reads a request for a capability from the body of an operation. */
export type ReadRequestOf = (
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
) => ReadRequest | Promise<ReadRequest>;

/**
 * Reads the body; a file in it is kept, and whatever recording is named is looked at.
 * @throws GatewayError INVALID_REQUEST, CONFLICTING_FIELDS, INVALID_INPUT_URL, FILE_TOO_LARGE, …
 */
export async function readRequest(
  ctx: Context,
  capability: Capability,
  deps: ReadingDeps,
): Promise<ReadRequest> {
  const { recordings } = deps;
  if (capability.upload && ctx.is('multipart/form-data')) return readForm(ctx, capability, deps);
  const { webhookUrl: given, metadata: pairs, ...fields } = await readJson(ctx);
  const request = parseWith(capability.request, fields);
  const webhookUrl = parseWebhookUrl(given, deps.outbound);
  const metadata = parseMetadata(pairs);
  const recording = await findRecording(ctx, capability, { request, recordings });
  return { request, recording, webhookUrl, metadata };
}

async function findRecording(
  ctx: Context,
  capability: Capability,
  { request, recordings }: { request: JsonObject; recordings: Recordings },
): Promise<Recording | undefined> {
  const wanted = capability.recording?.(request);
  return wanted && recordings.find(wanted, ctx.state.caller.organizationId);
}

async function readForm(
  ctx: Context,
  capability: Capability,
  { recordings, outbound, onKeeping }: ReadingDeps,
): Promise<ReadRequest> {
  const field = capability.upload?.field ?? '';
  const { texts, files } = await receiveForm(ctx, {
    fields: [field],
    bytesMax: capability.upload?.bytesMax ?? 0,
    keep(stream) {
      const keeping = recordings.keep({ field, stream }, ctx.state.caller);
      onKeeping(keeping.then(({ recording }) => recording));
      return keeping;
    },
  });
  const [file] = files;
  const { async: later, webhookUrl: given, metadata: pairs, ...fields } = texts;
  const webhookUrl = parseWebhookUrl(given, outbound);
  const metadata = parseMetadata(jsonOrText(pairs));
  const told = { ...fields, ...(later !== undefined && { async: spelledFlag(later) }) };
  if (!file) {
    // What it lacks is told before what it has too much.
    capability.recording?.(told);
    const request = parseWith(capability.request, told);
    const recording = await findRecording(ctx, capability, { request, recordings });
    return { request, recording, webhookUrl, metadata };
  }
  if (texts['fileId'] !== undefined) {
    const message = `name one source: ${field} or fileId`;
    throw fieldsError('CONFLICTING_FIELDS', [field, 'fileId'], message);
  }
  const request = parseWith(capability.request, {
    ...(file.name !== '' && { fileName: file.name.slice(0, 255) }),
    ...told,
    fileId: file.kept.fileId,
  });
  // Refuses a second source beside the file.
  capability.recording?.(request);
  return { request, recording: file.kept.recording, webhookUrl, metadata };
}

/** Forms know texts only; what is no JSON is left for the schema to refuse. */
function jsonOrText(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** As `jsonOrText`, of a flag; another spelling is left for the schema to refuse. */
function spelledFlag(text: string): boolean | string {
  return text === 'true' || (text === 'false' ? false : text);
}
