/**
 * The fields of a Studio endpoint and the limits of the chosen model, as the API describes them.
 */
import type { Schemas } from '../../gateway/client.ts';

/** An endpoint with its models. */
export type Capability = Schemas['ListStudioModelsAnswer']['data'][number];
type Model = Capability['models'][number];

/** Part of JSON Schema that requests use. */
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

/** Values of a form; a field that is not set is absent. */
export type Values = Record<string, unknown>;

/** A field of a form. */
export interface Field {
  name: string;
  schema: FieldSchema;
  isRequired: boolean;
}

/** Returns the path of an endpoint below /studio: `image/generate`. */
export const endpointName = ({ endpoint }: Capability): string =>
  endpoint.replace(/^.*\/studio\//, '');

/** Returns the model that the values select. */
export function findModel({ models, request }: Capability, values: Values): Model | undefined {
  const { properties = {} }: FieldSchema = request;
  return models.find(({ selectedBy }) =>
    Object.entries(selectedBy).every(
      ([name, value]) => (values[name] ?? properties[name]?.default) === value,
    ),
  );
}

/**
 * Lists the fields that the chosen model accepts, with its limits. The console sets `async` itself.
 */
export function listFields(capability: Capability, values: Values): Field[] {
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

/** Returns whether a model accepts a field; a field of other models only is rejected. */
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

/** Makes the body of a request from the fields that are shown and set. */
export function makeBody(capability: Capability, values: Values): Values {
  const names = listFields(capability, values).map(({ name }) => name);
  return Object.fromEntries(
    names.flatMap((name) => (isSet(values[name]) ? [[name, values[name]]] : [])),
  );
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0);
}

/** Returns whether a field is the URL or the id of media. */
export function isMedia({ anyOf, format }: FieldSchema): boolean {
  return format === 'uri' || (anyOf?.every((each) => isMedia(each) || isFileId(each)) ?? false);
}

function isFileId({ pattern }: FieldSchema): boolean {
  return pattern?.startsWith('^file_') ?? false;
}

/** Returns the list among the alternatives of a field. */
export function listIn(schema: FieldSchema): FieldSchema | undefined {
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
