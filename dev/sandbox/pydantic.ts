/** Builds validation errors in pydantic's format, as returned by fal's models and ElevenLabs. */
import type { z } from 'zod';

/** Entry in the `detail` of a 422 response. */
export interface ValidationDetail {
  loc: (string | number)[];
  msg: string;
  type: string;
  ctx?: Record<string, unknown>;
  input?: unknown;
}

function findValue(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key) as unknown;
  }
  return value;
}

type Issue = z.core.$ZodIssue;

function describeIssue(
  issue: Issue,
  input: unknown,
): Pick<ValidationDetail, 'msg' | 'type' | 'ctx'> {
  if (issue.code === 'invalid_type') {
    if (input === undefined) return { type: 'missing', msg: 'Field required' };
    return { type: `${issue.expected}_type`, msg: `Input should be a valid ${issue.expected}` };
  }
  if (issue.code === 'invalid_value') {
    const expected = issue.values.map((value) => `'${String(value)}'`).join(', ');
    if (input === undefined) return { type: 'missing', msg: 'Field required' };
    return { type: 'literal_error', msg: `Input should be ${expected}`, ctx: { expected } };
  }
  if (issue.code === 'too_big' || issue.code === 'too_small') {
    const big = issue.code === 'too_big';
    const bound = Number(big ? issue.maximum : issue.minimum);
    if (issue.origin === 'string' || issue.origin === 'array') {
      const type = `${issue.origin === 'string' ? 'string_' : ''}too_${big ? 'long' : 'short'}`;
      const ctx = { [big ? 'max_length' : 'min_length']: bound };
      return { type, msg: `Length should be at ${big ? 'most' : 'least'} ${bound}`, ctx };
    }
    const type = big ? 'less_than_equal' : 'greater_than_equal';
    return { type, msg: `Input should be ${type.replaceAll('_', ' ')} ${bound}`, ctx: { bound } };
  }
  return { type: 'value_error', msg: issue.message };
}

/** Builds the `detail` of a 422 response to a body that does not match the schema. */
export function validationDetail(error: z.ZodError, body: unknown): ValidationDetail[] {
  return error.issues.map((issue) => {
    const input = findValue(body, issue.path);
    const loc = ['body', ...issue.path.filter((key) => typeof key !== 'symbol')];
    return { loc, ...describeIssue(issue, input), ...(input === undefined ? {} : { input }) };
  });
}
