/** Rules for the files of callers, the same for uploads, forms, URLs and data URLs. */
import { GatewayError } from '../domain/errors.ts';
import type { ByteSource } from './byte-source.ts';
import { readMedia, type MediaFacts } from './media-reader.ts';
import {
  fileBytesMax,
  isAccepted,
  listAccepted,
  pixelsMax,
  type MediaType,
  type MediaUse,
} from './media-types.ts';

/** File that cannot be used. The message completes a sentence about the file. */
export class UnusableFile extends Error {
  override readonly name = 'UnusableFile';
  readonly code: 'UNSUPPORTED_MEDIA_TYPE' | 'FILE_TOO_LARGE';

  constructor(message: string, code: UnusableFile['code'] = 'UNSUPPORTED_MEDIA_TYPE') {
    super(message);
    this.code = code;
  }
}

type AcceptedFacts = Exclude<MediaFacts, { kind: 'refused' }>;

/**
 * Reads a file, closes the source, and checks that the file can be used. Without `use`, every
 * medium is accepted.
 * @throws UnusableFile; GatewayError SERVICE_UNAVAILABLE
 */
export async function readAccepted(source: ByteSource, use?: MediaUse): Promise<AcceptedFacts> {
  const facts = await readMedia(source);
  const refuse = (found: string): never => {
    throw new UnusableFile(`is ${found}; accepted are ${listAccepted(use)}`);
  };
  if (facts.kind === 'refused') return refuse(facts.found);
  const { name } = facts.type;
  if (use && !isAccepted(facts.type, use)) return refuse(name);
  if (facts.kind === 'picture') checkPicture(facts, use);
  if (facts.kind === 'recording') {
    const hasSound = (facts.audio?.durationSeconds ?? 0) > 0;
    if (use === 'film' && !facts.video) return refuse(`${name} without a picture track`);
    if (use === 'recording' && !hasSound) return refuse(`${name} without sound`);
  }
  return facts;
}

/** Checks the number of pixels of every picture, and the number of frames of one that is used. */
function checkPicture(
  { type, width, height, isAnimated }: Extract<MediaFacts, { kind: 'picture' }>,
  use: MediaUse | undefined,
): void {
  const pixels = width * height;
  if (pixels > pixelsMax) {
    const message = `has ${pixels} pixels (${width}×${height}); at most ${pixelsMax} are allowed`;
    throw new UnusableFile(message, 'FILE_TOO_LARGE');
  }
  if (use && isAnimated) {
    throw new UnusableFile(`is an animated ${type.name}; accepted are pictures with one frame`);
  }
}

/**
 * Checks the bytes of an upload, whatever type was declared.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function checkUploadedFile(source: ByteSource, sizeBytes: number): Promise<MediaType> {
  try {
    const { type } = await readAccepted(source);
    const bytesMax = fileBytesMax[type.medium];
    if (sizeBytes <= bytesMax) return type;
    const message = `has ${sizeBytes} bytes; ${type.name} may have at most ${bytesMax}`;
    throw new UnusableFile(message, 'FILE_TOO_LARGE');
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    throw new GatewayError(error.code, `The file ${error.message}.`);
  }
}
