/** Replaces the ids of uploaded pictures in chats with signed URLs, which providers can fetch. */
import { iterateParts, type ContentPart } from '../../chat/chat-body.ts';
import { isId } from '../../domain/ids.ts';
import type { Composition } from '../composition.ts';
import type { ChatCall } from './chat-request.ts';

/** Lifetime of the signed URL of a picture, in milliseconds. */
const urlTtlMs = 3_600_000;

/** Returns whether a part is an uploaded picture, referenced by its file id. */
function isUpload(part: ContentPart): part is Extract<ContentPart, { type: 'image_url' }> {
  return part.type === 'image_url' && isId('upload', part.image_url.url);
}

/**
 * Returns the chat request with the ids of uploaded pictures replaced by signed URLs.
 * @throws GatewayError INVALID_INPUT_URL if a file is not a picture of this organization
 */
export async function signUploads(
  call: ChatCall,
  { inputs, storage }: Pick<Composition, 'inputs' | 'storage'>,
): Promise<ChatCall> {
  const { ctx, body: request } = call;
  if (![...iterateParts(request.body)].some(([, part]) => isUpload(part))) return call;
  const body = structuredClone(request.body);
  for (const [path, part] of iterateParts(body)) {
    if (!isUpload(part)) continue;
    const source = { field: `${path}.file_id`, url: part.image_url.url, medium: 'image' as const };
    const input = await inputs.resolve(source, ctx.state.caller.organizationId);
    if (input.kind === 'file') {
      part.image_url.url = await storage.urlOf(input.storageKey, urlTtlMs);
    }
  }
  return { ctx, body: { ...request, body } };
}
