/** Renames the fields in the errors of Studio requests to the names that OpenAI's API uses. */
import { renameFields } from '../../../domain/errors.ts';

/** Field names in OpenAI's API, keyed by the capability's field name. */
const openaiNames: Readonly<Record<string, string>> = {
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
 * Calls `run` and renames the fields in the errors that it throws, by default to OpenAI's names.
 * @throws GatewayError with renamed fields; other errors of `run` unchanged
 */
export async function withRenamedFields<Result>(
  run: () => Result | Promise<Result>,
  rename: (path: string) => string = toOpenaiName,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw renameFields(error, rename);
  }
}

/** Converts the path of a field to OpenAI's name, for example `imageUrls.0` to `image.0`. */
function toOpenaiName(path: string): string {
  const [field = '', ...rest] = path.split('.');
  return [Object.hasOwn(openaiNames, field) ? openaiNames[field] : field, ...rest].join('.');
}
