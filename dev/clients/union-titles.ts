/** Titles of union members in an OpenAPI document. The Python generator numbers members without a title. */
import { isRecord } from '../../domain/json.ts';

/**
 * Sets the title of each union member inside a schema of `field`: the constant values of its properties `role`, `type` and
 * `success`, then the field, e.g. `TextContent`. Members without such a property keep their own title.
 */
export function setUnionTitles(schema: unknown, field: string): void {
  if (Array.isArray(schema)) for (const part of schema) setUnionTitles(part, field);
  if (!isRecord(schema)) return;
  for (const member of [schema['anyOf'] ?? [], schema['oneOf'] ?? []].flat()) {
    if (!isRecord(member) || !isRecord(member['properties'])) continue;
    const { role, type, success } = member['properties'];
    const constants = [role, type, success].flatMap(readConstants);
    if (constants.length > 0) member['title'] = [...constants, field].map(toPascalCase).join('');
  }
  for (const [keyword, part] of Object.entries(schema)) {
    if (keyword === 'properties' && isRecord(part)) {
      for (const [name, property] of Object.entries(part)) setUnionTitles(property, name);
    } else setUnionTitles(part, field);
  }
}

/** Returns the values of a property whose schema allows only constants. */
function readConstants(property: unknown): string[] {
  if (!isRecord(property)) return [];
  const { const: value, enum: values } = property;
  return [value, values]
    .flat()
    .filter((constant) => constant !== undefined)
    .map(String);
}

function toPascalCase(text: string): string {
  return text.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
