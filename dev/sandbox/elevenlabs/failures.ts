/**
 * Builds errors in ElevenLabs' documented formats: `detail` is `{type, code, message, status, request_id, param?}`, where
 * `status` is the older name of `code`; the error for an invalid body is FastAPI's 422.
 */
import type { z } from 'zod';
import { CallRejectedError, type CallFailure } from '../calls/call.ts';
import { validationDetail } from '../pydantic.ts';

/** Error for a fault, by HTTP status. */
const failures: Record<number, { code: string; message: string }> = {
  400: { code: 'invalid_parameters', message: 'The request has invalid parameters.' },
  401: { code: 'invalid_api_key', message: 'Invalid API key' },
  402: { code: 'payment_required', message: 'This request requires a paid plan.' },
  403: { code: 'missing_permissions', message: 'The API key is missing a permission.' },
  404: { code: 'not_found', message: 'Not found' },
  429: {
    code: 'system_busy',
    message: 'The system is experiencing heavy traffic, please try again.',
  },
  500: { code: 'internal_error', message: 'An internal error occurred.' },
  503: { code: 'service_unavailable', message: 'The service is temporarily unavailable.' },
};

const types: Record<number, string> = {
  400: 'validation_error',
  401: 'authentication_error',
  402: 'payment_required',
  403: 'authorization_error',
  404: 'not_found',
  413: 'validation_error',
  422: 'validation_error',
  429: 'rate_limit_error',
  503: 'service_unavailable',
};

/** Builds the 422 error for a body that does not match its schema. */
export function invalidBody(error: z.ZodError, body: unknown): CallRejectedError {
  const detail = validationDetail(error, body);
  const message = detail[0]?.msg ?? 'Invalid body';
  return new CallRejectedError(422, { code: 'invalid_body', message, detail });
}

/** Builds the 422 error for one invalid field. */
export function invalidField(field: string, message: string): CallRejectedError {
  const detail = [{ loc: ['body', field], msg: message, type: 'value_error' }];
  return new CallRejectedError(422, { code: 'invalid_body', message, detail });
}

/** Builds the error of the content filter. For music the code was observed at ElevenLabs; the other code is a guess. */
function policyFailure(endpoint: string, type: string | undefined): CallRejectedError {
  if (!endpoint.includes('/music')) {
    return new CallRejectedError(400, {
      code: type ?? 'content_against_policy',
      message: 'The text you provided violates our Terms of Service.',
    });
  }
  return new CallRejectedError(400, {
    code: type ?? 'bad_prompt',
    message:
      'Your prompt appears to have violated our Terms of Service. Please try again with a different prompt.',
    data: { prompt_suggestion: 'A calm instrumental piece with piano and strings.' },
  });
}

/** Builds the error that a fault causes. */
export function failure({ cause, status, type, endpoint }: CallFailure): CallRejectedError {
  if (cause === 'policy') return policyFailure(endpoint, type);
  if (cause === 'concurrency') {
    return new CallRejectedError(429, {
      code: type ?? 'too_many_concurrent_requests',
      message: 'Too many concurrent requests. Your current subscription is limited.',
    });
  }
  if (status === 422 && type === undefined) return invalidField('text', 'Invalid input');
  const known = failures[status] ?? { code: 'internal_error', message: 'An error occurred.' };
  return new CallRejectedError(status, { ...known, ...(type !== undefined && { code: type }) });
}

/** Codes that differ from the older `status` (documented for 429). */
const newerCodes: Record<string, string> = {
  too_many_concurrent_requests: 'concurrent_limit_exceeded',
};

/** Builds the body of an error response. */
export function errorBody(rejection: CallRejectedError, requestId: string): unknown {
  const { status, code, message, details } = rejection;
  if ('detail' in details) return { detail: details['detail'] };
  return {
    detail: {
      type: types[status] ?? 'internal_error',
      code: newerCodes[code] ?? code,
      message,
      status: code,
      request_id: requestId,
      ...details,
    },
  };
}
