/** Form fields of a Studio endpoint, with the limits of the chosen model. */
import type { Schemas } from '../../gateway/client.ts';

/** Studio endpoint with its models. */
export type Capability = Schemas['ListStudioModelsAnswer']['data'][number];
type Model = Capability['models'][number];

/** JSON Schema of a request field, with the keywords that the form uses. */
export interface FieldSchema {
  type?: string;
  enum?: (string | number)[];
  anyOf?: FieldSchema[];
  items?: FieldSchema;
  properties?: Record<string, FieldSchema>;
  required?: string[];
  default?: unknown;
  description?: string;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

/** Values of a form, keyed by field name. Fields without a value are absent. */
export type FormValues = Record<string, unknown>;

/** Field of a form. */
export interface Field {
  name: string;
  schema: FieldSchema;
  isRequired: boolean;
}

/** Returns the path of an endpoint, e.g. `/api/v1/studio/image/generate`. */
export const endpointPath = ({ endpoint }: Capability): string => endpoint.replace(/^POST /, '');

/** Returns the path of an endpoint below /studio, e.g. `image/generate`. */
export const studioPath = ({ endpoint }: Capability): string =>
  endpoint.replace(/^.*\/studio\//, '');

/** Returns the model that the form values select. */
export function findModel({ models, request }: Capability, values: FormValues): Model | undefined {
  const { properties = {} }: FieldSchema = request;
  return models.find(({ selectedBy }) =>
    Object.entries(selectedBy).every(
      ([name, value]) => (values[name] ?? properties[name]?.default) === value,
    ),
  );
}

/** Returns the example of the default model as form values, without URLs of missing files. */
export function buildExample({ models, defaultModel, request }: Capability): FormValues {
  const { properties = {} }: FieldSchema = request;
  const model = models.find(({ id }) => id === defaultModel) ?? models[0];
  const fields = Object.entries(model?.example.request ?? {}).filter(
    ([name, value]) =>
      name !== 'numImages' &&
      value !== properties[name]?.default &&
      !JSON.stringify(value).includes('https://example.com/'),
  );
  return Object.fromEntries(fields);
}

/** Returns the name of the field with the main text of a request. Undefined if there is none. */
export function findTextField({ request }: Capability): string | undefined {
  const { properties = {} }: FieldSchema = request;
  return ['prompt', 'text'].find((name) => name in properties);
}

/** Returns the prompt, or other main text, of an endpoint's example. */
export function findExampleText(capability: Capability): string {
  const text = buildExample(capability)[findTextField(capability) ?? ''];
  return typeof text === 'string' ? text : '';
}

/** Returns the values of a form that opens: the example, with the text of `request`. */
export function buildOpening(capability: Capability, request: FormValues = {}): FormValues {
  const textField = findTextField(capability);
  const text = Object.entries(request).filter(([name]) => name === textField);
  return { ...buildExample(capability), ...Object.fromEntries(text) };
}

/** Lists the fields that the chosen model accepts. Omits `async`, which the console always sets. */
export function listFields(capability: Capability, values: FormValues): Field[] {
  const { properties = {}, required = [] }: FieldSchema = capability.request;
  const model = findModel(capability, values);
  return Object.entries(properties)
    .filter(([name]) => name !== 'async')
    .filter(([name]) => required.includes(name) || acceptsField(capability, model, name))
    .map(([name, schema]) => ({
      name,
      schema: narrowSchema(schema, model?.parameters[name]),
      isRequired: required.includes(name),
    }))
    .toSorted((one, other) => Number(other.isRequired) - Number(one.isRequired));
}

/** Returns whether the model accepts a field. Returns false if only other models define it. */
function acceptsField({ models }: Capability, model: Model | undefined, name: string): boolean {
  if (!model || name in model.parameters || name in model.selectedBy) return true;
  return !models.some(({ parameters }) => name in parameters);
}

function narrowSchema(
  schema: FieldSchema,
  rule: Schemas['ParameterRule'] | undefined,
): FieldSchema {
  if (!rule) return schema;
  const choices = rule.oneOf?.filter((value) => typeof value !== 'boolean');
  return {
    ...schema,
    ...(rule.default !== undefined && { default: rule.default }),
    ...(rule.min !== undefined && { minimum: rule.min }),
    ...(rule.max !== undefined && { maximum: rule.max }),
    ...(rule.itemsMax !== undefined && { maxItems: rule.itemsMax }),
    ...(rule.charactersMax !== undefined && { maxLength: rule.charactersMax }),
    ...(choices && choices.length > 0 && { enum: choices }),
  };
}

/** Builds the request body from the visible fields that have a value. */
export function buildBody(capability: Capability, values: FormValues): FormValues {
  const names = listFields(capability, values).map(({ name }) => name);
  return Object.fromEntries(
    names.flatMap((name) => (hasValue(values[name]) ? [[name, values[name]]] : [])),
  );
}

function hasValue(value: unknown): boolean {
  return value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0);
}

/** Returns whether a field accepts a media file, as a URL or a file id. */
export function isMedia({ anyOf, format }: FieldSchema): boolean {
  return format === 'uri' || (anyOf?.every((one) => isMedia(one) || isFileId(one)) ?? false);
}

function isFileId({ pattern }: FieldSchema): boolean {
  return pattern?.startsWith('^file_') ?? false;
}

/** Returns the schema of the array that a field accepts. Undefined if it accepts no array. */
export function findArraySchema(schema: FieldSchema): FieldSchema | undefined {
  return schema.type === 'array' ? schema : schema.anyOf?.find(({ type }) => type === 'array');
}

const titleWords: Record<string, string> = {
  url: 'URL',
  urls: 'URLs',
  id: 'ID',
  ms: '(ms)',
  seconds: '(seconds)',
  num: 'number of',
};

/** Converts a field name to a title: `imageUrls` → `Image URLs`. */
export function toTitle(name: string): string {
  const words = name
    .replaceAll(/([A-Z])/g, ' $1')
    .replaceAll('_', ' ')
    .toLowerCase()
    .trim()
    .split(' ');
  const text = words.map((word) => titleWords[word] ?? word).join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}
