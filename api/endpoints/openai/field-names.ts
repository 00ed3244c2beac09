/** Renames fields in the errors of Studio requests to their names in OpenAI's API. */
import { GatewayError } from '../../../domain/errors.ts';

/** Field names in OpenAI's API, keyed by the capability's field name. */
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

/**
 * Calls `run` and renames the fields in its errors, by default to OpenAI's names.
 * @throws GatewayError with renamed fields, and every other error of `run`
 */
export async function withRenamedFields<Result>(
  run: () => Result | Promise<Result>,
  rename: (path: string) => string = toOpenaiName,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw error instanceof GatewayError && error.details ? renameFields(error, rename) : error;
  }
}

function renameFields(error: GatewayError, rename: (path: string) => string): GatewayError {
  const { code, body, retryAfterSeconds, cause } = error;
  const details = error.details?.map(({ path, message }) => ({ path: rename(path), message }));
  const [first] = error.details ?? [];
  const isNamed = first && error.message.startsWith(`${first.path}:`);
  const message = isNamed
    ? rename(first.path) + error.message.slice(first.path.length)
    : error.message;
  return new GatewayError(code, message, { details, body, retryAfterSeconds, cause });
}

/** Renames `imageUrls.0` to `image.0`. */
function toOpenaiName(path: string): string {
  const [field = '', ...rest] = path.split('.');
  return [Object.hasOwn(names, field) ? names[field] : field, ...rest].join('.');
}
