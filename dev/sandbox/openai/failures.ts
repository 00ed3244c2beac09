/** Builds errors in OpenAI's format: `{error: {message, type, param, code}}`. */
import type { z } from 'zod';
import { CallRejectedError, type CallFailure } from '../calls/call.ts';

const requestError = 'invalid_request_error';

/** Error for a fault, by HTTP status. */
const failures: Record<number, { type: string; code: string; message: string }> = {
  400: { type: requestError, code: 'invalid_value', message: 'The request is invalid.' },
  401: { type: requestError, code: 'invalid_api_key', message: 'Incorrect API key provided.' },
  403: {
    type: requestError,
    code: 'unsupported_country_region_territory',
    message: 'Country, region, or territory not supported',
  },
  422: { type: requestError, code: 'invalid_value', message: 'The request is invalid.' },
  429: {
    type: 'requests',
    code: 'rate_limit_exceeded',
    message: 'Rate limit reached. Please try again later.',
  },
  500: {
    type: 'server_error',
    code: 'server_error',
    message: 'The server had an error while processing your request. Sorry about that!',
  },
  503: {
    type: 'server_error',
    code: 'server_overloaded',
    message: 'The engine is currently overloaded, please try again later',
  },
};

interface Problem {
  code: string;
  message: string;
  param?: string;
}

/** Builds a 400 error. */
export function invalidRequest({ param, ...problem }: Problem): CallRejectedError {
  return new CallRejectedError(400, { ...problem, type: requestError, param: param ?? null });
}

type Issue = z.core.$ZodIssue;

function describeIssue(issue: Issue, param: string, value: unknown): Omit<Problem, 'param'> {
  if (issue.code === 'unrecognized_keys') {
    return { code: 'unknown_parameter', message: `Unknown parameter: '${issue.keys[0] ?? ''}'.` };
  }
  if (value === undefined) {
    const message = `Missing required parameter: '${param}'.`;
    return { code: 'missing_required_parameter', message };
  }
  if (issue.code === 'invalid_type') {
    return { code: 'invalid_type', message: `Invalid type for '${param}': ${issue.message}.` };
  }
  return { code: 'invalid_value', message: `Invalid value for '${param}': ${issue.message}.` };
}

/** Builds the 400 error for a body that does not match its schema. Like OpenAI, it reports only the first problem. */
export function invalidBody(error: z.ZodError, body: unknown): CallRejectedError {
  const [issue] = error.issues;
  if (!issue) return invalidRequest({ code: 'invalid_value', message: 'The request is invalid.' });
  const param =
    issue.code === 'unrecognized_keys' ? (issue.keys[0] ?? '') : String(issue.path[0] ?? '');
  const value: unknown =
    typeof body === 'object' && body !== null ? Reflect.get(body, param) : undefined;
  return invalidRequest({ ...describeIssue(issue, param, value), param });
}

/** Builds the error that a fault causes. */
export function failure({ cause, status, type }: CallFailure): CallRejectedError {
  if (cause === 'policy') {
    return new CallRejectedError(400, {
      code: type ?? 'moderation_blocked',
      message: 'Your request was rejected by the safety system. safety_violations=[violence].',
      type: 'image_generation_user_error',
      param: null,
    });
  }
  const known = failures[cause === 'concurrency' ? 429 : status] ?? failures[500];
  return new CallRejectedError(status, {
    code: 'server_error',
    message: 'The request failed.',
    ...known,
    param: null,
    ...(type !== undefined && { code: type }),
  });
}

/** Builds the body of an error response. */
export function errorBody({ message, code, details }: CallRejectedError): unknown {
  const { type = requestError, param = null } = details;
  return { error: { message, type, param, code } };
}
