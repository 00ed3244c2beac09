/**
 * Renders an OpenAPI 3.1 document as 3.0 for programs that generate clients in Go, Java, C# or
 * Python. They need a name for every object, and do not know `null` as a type.
 */
import { isRecord } from '../../domain/json.ts';

type Schema = Record<string, unknown>;

/** Keywords that OpenAPI 3.0 does not have. */
const newKeywords = ['$schema', 'const', 'examples', 'propertyNames', 'patternProperties', 'not'];

/** Renders the document. Fields that are accepted only as null, or as an empty list, are left out. */
export function renderForGenerators(json: string): string {
  const document: Schema = JSON.parse(json);
  const { paths = {}, components, info } = document;
  const namer = createNamer(isRecord(components) ? toRecord(components['schemas']) : {});
  for (const operation of listOperations(toRecord(paths))) renderOperation(operation, namer);
  const { license: _, ...plainInfo } = toRecord(info);
  delete document['webhooks'];
  return JSON.stringify({
    ...document,
    openapi: '3.0.3',
    info: plainInfo,
    components: { ...toRecord(components), schemas: namer.finish() },
  });
}

const toRecord = (value: unknown): Schema => (isRecord(value) ? value : {});
const toList = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function listOperations(paths: Schema): Schema[] {
  return Object.values(paths).flatMap((methods) =>
    Object.values(toRecord(methods)).filter(isRecord),
  );
}

/** Renders the schemas of an operation. Each body and response has one media type. */
function renderOperation(operation: Schema, { render }: Namer): void {
  const root = toPascalCase(String(operation['operationId']));
  // Java cannot send an object with any fields in a query.
  const parameters = toList(operation['parameters'])
    .filter(isRecord)
    .filter(({ style }) => style !== 'deepObject');
  operation['parameters'] = parameters;
  for (const parameter of parameters) {
    parameter['schema'] = render(parameter['schema'], { root, field: String(parameter['name']) });
  }
  const request = toRecord(operation['requestBody']);
  renderContent(request, (schema) => render(schema, { root, field: 'request' }));
  for (const [status, answer] of Object.entries(toRecord(operation['responses']))) {
    if (!isRecord(answer)) continue;
    for (const header of Object.values(toRecord(answer['headers'])).filter(isRecord)) {
      header['schema'] = render(header['schema'], { root, field: 'header' });
    }
    const field = status === '200' ? '' : status;
    renderContent(answer, (schema) => render(schema, { root: `${root}Answer`, field }));
  }
}

function renderContent(part: Schema, render: (schema: unknown) => unknown): void {
  const content = Object.entries(toRecord(part['content']));
  const [type, media] = content.find(([one]) => one === 'application/json') ?? content[0] ?? [];
  if (type === undefined || !isRecord(media)) return;
  // Generators know binary bodies and streams of lines by this type only.
  const isBinary = /^(audio|video|image)\/|^application\/x-ndjson$/.test(type);
  part['content'] = isBinary
    ? { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }
    : { [type]: { ...media, schema: render(media['schema']) } };
}

interface Namer {
  /** Renders a schema. An object becomes a named schema, and the result refers to it. */
  render: (schema: unknown, place: Place) => unknown;
  /** Returns all named schemas. */
  finish: () => Schema;
}

/** Place of a schema, from which the name of an object is made. */
interface Place {
  /** Beginning of the name: the operation, or the named schema. */
  root: string;
  /** Field that contains the schema. Empty for a whole body. */
  field: string;
}

interface Names {
  /** Names an object, and returns a reference to it. Equal objects share a name. */
  nameObject: (rendered: Schema, wanted: string) => Schema;
  named: Map<string, unknown>;
}

/** Creates the names of objects, beside those that schemas have already. */
function createNames(known: Schema): Names {
  const named = new Map<string, unknown>();
  /** Names in lower case, because files of generated classes may not differ by case only. */
  const taken = new Set(Object.keys(known).map((name) => name.toLowerCase()));
  const namesByContent = new Map<string, string>();

  function nameObject(rendered: Schema, wanted: string): Schema {
    const content = JSON.stringify(rendered);
    let name = namesByContent.get(content);
    if (name === undefined) {
      name = wanted;
      for (let number = 2; taken.has(name.toLowerCase()); number += 1) name = `${wanted}${number}`;
      taken.add(name.toLowerCase());
      namesByContent.set(content, name);
      named.set(name, rendered);
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  return { nameObject, named };
}

/** Creates the renderer of schemas, with those that have a name already. */
function createNamer(known: Schema): Namer {
  const names = createNames(known);
  return {
    render: (schema, place) => renderSchema(names, schema, place),
    finish() {
      for (const [name, schema] of Object.entries(known)) {
        const isObject = isRecord(schema) && schema['properties'];
        names.named.set(
          name,
          isObject
            ? renderKeywords(names, schema, { root: name, field: '' })
            : renderSchema(names, schema, { root: name, field: 'value' }),
        );
      }
      return Object.fromEntries(names.named);
    },
  };
}

function renderMembers(names: Names, members: unknown[], { root, field }: Place): unknown[] {
  return members.map((member) =>
    renderSchema(names, member, { root, field: readConstants(member) + toPascalCase(field) }),
  );
}

function renderKeywords(names: Names, schema: Schema, place: Place): Schema {
  const { root } = place;
  const { properties, required, items, additionalProperties, allOf } = schema;
  const fields = listFields(toRecord(properties));
  const wanted = toList(required).filter((field) => fields.some(([one]) => one === field));
  const rendered: Schema = Object.fromEntries(
    Object.entries(schema).filter(([keyword]) => !newKeywords.includes(keyword)),
  );
  delete rendered['required'];
  // In OpenAPI 3.0, an exclusive bound is a flag beside the bound.
  for (const [exclusive, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof schema[exclusive] !== 'number') continue;
    rendered[bound] = schema[exclusive];
    rendered[exclusive] = true;
  }
  if (schema['const'] !== undefined) rendered['enum'] = [schema['const']];
  const choices = toList(rendered['enum']);
  if (schema['type'] === 'boolean') delete rendered['enum'];
  else if (choices.length > 0 && choices.every(Number.isInteger)) rendered['type'] = 'integer';
  if (wanted.length > 0) rendered['required'] = wanted;
  if (properties) {
    rendered['properties'] = Object.fromEntries(
      fields.map(([field, part]) => [field, renderSchema(names, part, { root, field })]),
    );
  }
  if (isRecord(items)) {
    rendered['items'] = renderSchema(names, items, { root, field: place.field.replace(/s$/, '') });
  }
  if (isRecord(additionalProperties)) {
    rendered['additionalProperties'] = renderSchema(names, additionalProperties, place);
  }
  if (Array.isArray(allOf)) rendered['allOf'] = renderMembers(names, allOf, place);
  return rendered;
}

function renderUnion(names: Names, schema: Schema, place: Place): Schema {
  const { anyOf, oneOf, type, ...rest } = schema;
  const types = Array.isArray(type) ? type.map((one) => ({ type: one })) : [];
  const all = [...toList(anyOf), ...toList(oneOf), ...types];
  const values = all.filter((member) => toRecord(member)['type'] !== 'null');
  // Java has no type for a value or a list of it; a request may always send the list.
  const list = values.find((member) => toRecord(member)['type'] === 'array');
  const members = list === undefined ? values : [list];
  const nullable = values.length < all.length ? { nullable: true } : {};
  const [only] = members;
  if (members.length === 1 && isRecord(only)) {
    const merged = toRecord(renderSchema(names, { ...only, ...rest }, place));
    return merged['$ref'] && 'nullable' in nullable
      ? { allOf: [merged], ...nullable }
      : { ...merged, ...nullable };
  }
  const kept = renderKeywords(names, rest, place);
  // Generators have no type for a choice of plain values.
  const isPlain = members.every((one) =>
    /^(string|number|integer|boolean)$/.test(String(toRecord(one)['type'])),
  );
  if (!isPlain) return { ...kept, ...nullable, anyOf: renderMembers(names, members, place) };
  const {
    enum: _enum,
    maxLength: _length,
    pattern: _pattern,
    format: _format,
    ...described
  } = kept;
  return { ...described, ...nullable };
}

/** Renders a schema. An object becomes a named schema, and the result refers to it. */
function renderSchema(names: Names, schema: unknown, place: Place): unknown {
  if (!isRecord(schema)) return schema === false || schema === true ? {} : schema;
  if (typeof schema['$ref'] === 'string') return { $ref: schema['$ref'] };
  if (schema['anyOf'] || schema['oneOf'] || Array.isArray(schema['type'])) {
    return renderUnion(names, schema, place);
  }
  const rendered = renderKeywords(names, schema, place);
  return Object.keys(toRecord(rendered['properties'])).length > 0
    ? names.nameObject(rendered, place.root + toPascalCase(place.field))
    : rendered;
}

/** Returns the constants by which a member of a union is recognized: `Text` for `{type: 'text'}`. */
function readConstants(member: unknown): string {
  const properties = toRecord(toRecord(member)['properties']);
  const constants = ['role', 'type', 'success'].flatMap((field) => {
    const { const: value, enum: values } = toRecord(properties[field]);
    return value === undefined ? toList(values).slice(0, 1) : [value];
  });
  return constants.map((value) => toPascalCase(String(value))).join('');
}

/** Returns the properties that a caller can set or read, without those that differ by case only. */
function listFields(properties: Schema): [string, unknown][] {
  const seen = new Set<string>();
  return Object.entries(properties).filter(([field, schema]) => {
    const plain = field.replaceAll(/[^a-z0-9]/gi, '').toLowerCase();
    if (seen.has(plain) || isNullOnly(schema)) return false;
    seen.add(plain);
    return true;
  });
}

/** Returns whether a field accepts nothing but null and an empty list. */
function isNullOnly(schema: unknown): boolean {
  const { type, maxItems, anyOf } = toRecord(schema);
  if (Array.isArray(anyOf)) return anyOf.every(isNullOnly);
  return type === 'null' || (type === 'array' && maxItems === 0);
}

function toPascalCase(text: string): string {
  return text
    .replaceAll(/[^A-Za-z0-9]+([A-Za-z0-9]?)/g, (_, letter: string) => letter.toUpperCase())
    .replace(/^[a-z]/, (letter) => letter.toUpperCase());
}
