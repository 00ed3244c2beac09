/** Refusals of capabilities, told with the names that OpenAI's clients have sent. */
import { GatewayError } from '../../../domain/errors.ts';

/** A capability's field → theirs. */
const names: Readonly<Record<string, string>> = {
  numImages: 'n',
  imageSize: 'size',
  aspectRatio: 'size',
  width: 'size',
  height: 'size',
  resolution: 'size',
  outputFormat: 'output_format',
  imageUrls: 'image',
  maskUrl: 'mask',
  imageUrl: 'input_reference',
  durationSeconds: 'seconds',
  text: 'input',
  title: 'input',
  fileId: 'file',
};

/** Runs what a capability may refuse. @throws GatewayError in their words, and whatever else `run` throws */
export async function inTheirWords<Result>(run: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw error instanceof GatewayError && error.details ? translated(error) : error;
  }
}

function translated(error: GatewayError): GatewayError {
  const { code, body, retryAfterSeconds, cause } = error;
  const details = error.details?.map(({ path, message }) => ({ path: nameOf(path), message }));
  const [first] = error.details ?? [];
  const isNamed = first && error.message.startsWith(`${first.path}:`);
  const message = isNamed
    ? nameOf(first.path) + error.message.slice(first.path.length)
    : error.message;
  return new GatewayError(code, message, { details, body, retryAfterSeconds, cause });
}

/** `imageUrls.0` is `image.0`. */
function nameOf(path: string): string {
  const [field = '', ...rest] = path.split('.');
  return [Object.hasOwn(names, field) ? names[field] : field, ...rest].join('.');
}
