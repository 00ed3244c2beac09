/**
 * Checks that a model supports the message parts of a chat request, and that the URLs in them have
 * public addresses, because providers fetch them.
 */
import { iterateParts } from '../../chat/chat-body.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import { isId } from '../../domain/ids.ts';
import { OutboundError } from '../../platform/outbound-addresses.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { ChatRequest } from './chat-request.ts';

/**
 * Checks the message parts of a request.
 * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_INPUT_URL
 */
export function checkParts(request: ChatRequest, model: ChatModel, outbound: Outbound): void {
  for (const [path, part] of iterateParts(request.body)) {
    const createUnsupportedError = (kind: string): GatewayError =>
      fieldError('UNSUPPORTED_PARAMETER', path, `${model.id} does not accept ${kind}`);
    switch (part.type) {
      case 'image_url':
        if (!model.supportsImages) throw createUnsupportedError('images');
        checkImageUrl(part.image_url.url, `${path}.image_url.url`, outbound);
        break;
      case 'file':
        if (!model.supportsImages) throw createUnsupportedError('documents');
        if (part.file.file_url !== undefined) checkUrl(part.file.file_url, path, outbound);
        break;
      case 'input_audio':
        if (!model.supportsAudio) throw createUnsupportedError('audio');
        break;
      case 'video_url':
        if (!model.supportsVideo) throw createUnsupportedError('video');
        break;
      case 'text':
      case 'refusal':
        break;
    }
  }
}

const imageData = /^data:image\/(?:png|jpeg|webp|gif);base64,[\w+/]/;

function checkImageUrl(url: string, path: string, outbound: Outbound): void {
  if (isId('upload', url)) return;
  if (!url.startsWith('data:')) checkUrl(url, path, outbound);
  else if (!imageData.test(url.slice(0, 64))) {
    const message = 'a data URI must contain a PNG, JPEG, WebP or GIF image in base64';
    throw fieldError('INVALID_INPUT_URL', path, message + formatReceived(url));
  }
}

function checkUrl(url: string, path: string, outbound: Outbound): void {
  try {
    outbound.check(url);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw fieldError('INVALID_INPUT_URL', path, error.message + formatReceived(url));
  }
}
