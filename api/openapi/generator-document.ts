/**
 * Renders an OpenAPI 3.1 document as 3.0 for programs that generate clients in Go, Java, C# or
 * Python. They need a name for every object, and do not know `null` as a type.
 */
import { isRecord } from '../../domain/json.ts';

type Schema = Record<string, unknown>;

/** Keywords that OpenAPI 3.0 does not have. */
const newKeywords = ['$schema', 'const', 'examples', 'propertyNames', 'patternProperties', 'not'];

const maxInt32 = 2 ** 31 - 1;

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
  // Java cannot send an object with any fields in a query. X-End-User would be a further argument of each method,
  // beside the field `endUser` of the body.
  const parameters = toList(operation['parameters'])
    .filter(isRecord)
    .filter(({ style, name }) => style !== 'deepObject' && name !== 'X-End-User');
  operation['parameters'] = parameters;
  for (const parameter of parameters) {
    parameter['schema'] = render(parameter['schema'], { root, field: String(parameter['name']) });
  }
  const request = toRecord(operation['requestBody']);
  renderContent(request, (schema) => render(schema, { root, field: 'request' }));
  const responses = toRecord(operation['responses']);
  // A generated method has one return type. A request for a video usually responds with its job (202).
  if (responses['202'] && root.startsWith('Video')) delete responses['200'];
  for (const [status, answer] of Object.entries(responses)) {
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
  /** Renders a schema. An object or union becomes a named schema, and the result refers to it. */
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
  /** Name of the object that has the field, if it is not the operation's. */
  owner?: string;
}

interface Names {
  /** Gives an object or union the first candidate that is free, and returns a reference to it. Equal schemas share a name. */
  nameSchema: (rendered: Schema, candidates: readonly string[]) => Schema;
  named: Map<string, unknown>;
}

/** Creates the names of objects, beside those that schemas have already. */
function createNames(known: Schema): Names {
  const named = new Map<string, unknown>();
  /** Names in lower case, because files of generated classes may not differ by case only. */
  const taken = new Set(Object.keys(known).map((name) => name.toLowerCase()));
  const namesByContent = new Map<string, string>();

  function nameSchema(rendered: Schema, candidates: readonly string[]): Schema {
    const content = JSON.stringify(rendered);
    let given = namesByContent.get(content);
    if (given === undefined) {
      const isFree = (name: string) => !taken.has(name.toLowerCase());
      const last = candidates.at(-1) ?? '';
      given = candidates.find(isFree) ?? last;
      for (let number = 2; !isFree(given); number += 1) given = `${last}${number}`;
      taken.add(given.toLowerCase());
      namesByContent.set(content, given);
      named.set(given, rendered);
    }
    return { $ref: `#/components/schemas/${given}` };
  }

  return { nameSchema, named };
}

/** Creates the renderer of schemas, with those that have a name already. */
function createNamer(known: Schema): Namer {
  const names = createNames(known);
  for (const [name, schema] of Object.entries(known)) {
    const isObject = isRecord(schema) && schema['properties'];
    names.named.set(
      name,
      isObject
        ? renderKeywords(names, schema, { root: name, field: '' })
        : renderSchema(names, schema, { root: name, field: 'value' }),
    );
  }
  return {
    render: (schema, place) => renderSchema(names, schema, place),
    finish: () => Object.fromEntries(names.named),
  };
}

function renderMembers(names: Names, members: unknown[], { field, ...place }: Place): unknown[] {
  const constants = members.map(readConstants);
  const unnamed = members.filter((one, index) => toRecord(one)['properties'] && !constants[index]);
  return members.map((member, index) => {
    const [first = ''] = Object.keys(toRecord(toRecord(member)['properties']));
    const kind = constants[index] || (unnamed.length > 1 ? toPascalCase(first) : '');
    return renderSchema(names, member, { ...place, field: kind + toPascalCase(field) });
  });
}

/** Returns the name of a response whose `data` is a named object. Operations with the same object share it. */
function namesOfAnswer({ properties }: Schema): string[] {
  const { success, data } = toRecord(properties);
  const { $ref } = toRecord(data);
  const name = typeof $ref === 'string' ? $ref.split('/').at(-1) : undefined;
  return success && name && !name.endsWith('AnswerData') ? [`${name}Answer`] : [];
}

/** Returns the name of a field's schema within the operation, and within the object of the field. */
const namesOf = ({ root, field, owner = root }: Place): [string, string] => [
  root + toPascalCase(field),
  owner + toPascalCase(field),
];

function renderKeywords(names: Names, schema: Schema, place: Place): Schema {
  const { properties, required, items, additionalProperties, allOf } = schema;
  const fields = listFields(toRecord(properties));
  const requiredFields = toList(required).filter((field) => fields.some(([one]) => one === field));
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
  if (rendered['format'] === 'date-time') delete rendered['pattern'];
  if (schema['const'] !== undefined) rendered['enum'] = [schema['const']];
  const choices = toList(rendered['enum']);
  if (schema['type'] === 'boolean') delete rendered['enum'];
  else if (choices.length > 0 && choices.every(Number.isInteger)) rendered['type'] = 'integer';
  // Generators read an integer without a format as one of 32 bits.
  const { minimum = 0, maximum = Infinity } = rendered;
  const isLong = Math.max(Number(maximum), -Number(minimum)) > maxInt32;
  if (rendered['type'] === 'integer' && isLong) rendered['format'] = 'int64';
  if (requiredFields.length > 0) rendered['required'] = requiredFields;
  if (properties) {
    const { root } = place;
    const [owner] = namesOf(place);
    rendered['properties'] = Object.fromEntries(
      fields.map(([field, part]) => [field, renderSchema(names, part, { root, field, owner })]),
    );
  }
  if (isRecord(items)) {
    const field = place.field.replace(/s$/, '');
    rendered['items'] = renderSchema(names, items, { ...place, field });
  }
  if (isRecord(additionalProperties)) {
    rendered['additionalProperties'] = renderSchema(names, additionalProperties, place);
  }
  if (Array.isArray(allOf)) rendered['allOf'] = renderMembers(names, allOf, place);
  return rendered;
}

function renderUnion(names: Names, schema: Schema, place: Place): Schema {
  const { anyOf: _any, oneOf: _one, type: _type, ...rest } = schema;
  const all = listMembers(schema);
  const values = all.filter((member) => toRecord(member)['type'] !== 'null');
  // Java has no type for a value or a list of it; a request may always send the list.
  const list = values.find((member) => toRecord(member)['type'] === 'array');
  const members = list === undefined ? values : [list];
  const nullable = values.length < all.length ? { nullable: true } : {};
  const [member] = members;
  if (members.length === 1 && isRecord(member)) {
    const merged = toRecord(renderSchema(names, { ...member, ...rest }, place));
    return merged['$ref'] && 'nullable' in nullable
      ? { allOf: [merged], ...nullable }
      : { ...merged, ...nullable };
  }
  const kept = renderKeywords(names, rest, place);
  const types = new Set(members.map((one) => toRecord(one)['type']));
  const [type] = types;
  if (!members.every(isPlain)) {
    const distinct = mergePlain(members);
    const rendered = renderMembers(names, distinct, place);
    const union = {
      ...kept,
      ...nullable,
      ...findDiscriminator(distinct, rendered),
      anyOf: rendered,
    };
    return names.nameSchema(union, [namesOf(place)[1]]);
  }
  const {
    enum: _enum,
    maxLength: _length,
    pattern: _pattern,
    format: _format,
    ...described
  } = kept;
  // Generators have no type for a choice of plain values. A form sends a boolean as text.
  const isFlag = types.size === 2 && types.has('boolean') && types.has('string');
  const only = isFlag ? 'boolean' : type;
  return { ...described, ...((isFlag || types.size === 1) && { type: only }), ...nullable };
}

/** Finds the field whose value identifies each member, so that generated code can choose the member by it. */
function findDiscriminator(members: unknown[], rendered: unknown[]): Schema {
  for (const propertyName of ['type', 'role']) {
    const mapping = new Map<unknown, unknown>();
    for (const [index, member] of members.entries()) {
      const { properties, required } = toRecord(member);
      if (!toList(required).includes(propertyName)) break;
      const { const: value } = toRecord(toRecord(properties)[propertyName]);
      if (typeof value === 'string') mapping.set(value, toRecord(rendered[index])['$ref']);
    }
    if (mapping.size === members.length) {
      return { discriminator: { propertyName, mapping: Object.fromEntries(mapping) } };
    }
  }
  return {};
}

const isPlain = (schema: unknown): boolean =>
  /^(string|number|integer|boolean)$/.test(String(toRecord(schema)['type']));

/** Replaces members that allow single values of one type, such as two enums of strings, by that type. */
function mergePlain(members: unknown[]): unknown[] {
  const plain = members.filter(isPlain);
  const types = new Set(plain.map((member) => toRecord(member)['type']));
  if (plain.length < 2 || types.size > 1) return members;
  const [type] = types;
  return [{ type }, ...members.filter((member) => !isPlain(member))];
}

/** Lists the members of a union, also those of the unions in it. */
function listMembers(schema: Schema): unknown[] {
  const { anyOf, oneOf, type } = schema;
  const types = Array.isArray(type) ? type.map((one) => ({ type: one })) : [];
  return [...toList(anyOf), ...toList(oneOf), ...types].flatMap((member) => {
    const {
      description: _description,
      type: _type,
      discriminator: _,
      ...nested
    } = toRecord(member);
    const keywords = Object.keys(nested);
    const isUnion = keywords.length > 0 && keywords.every((one) => /^(anyOf|oneOf)$/.test(one));
    return isUnion ? listMembers(nested) : [member];
  });
}

/** Renders a schema. An object or union becomes a named schema, and the result refers to it. */
function renderSchema(names: Names, schema: unknown, place: Place): unknown {
  if (!isRecord(schema)) return schema === false || schema === true ? {} : schema;
  if (typeof schema['$ref'] === 'string') return { $ref: schema['$ref'] };
  if (schema['anyOf'] || schema['oneOf'] || Array.isArray(schema['type'])) {
    return renderUnion(names, schema, place);
  }
  const rendered = renderKeywords(names, schema, place);
  return Object.keys(toRecord(rendered['properties'])).length > 0
    ? names.nameSchema(rendered, [...namesOfAnswer(rendered), ...namesOf(place)])
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
