/** Client of the operator API. It sends the cookie of the operator's session. */
import { useQuery } from '@tanstack/react-query';
import createClient from 'openapi-fetch';
import type { components, paths } from './admin-schema.ts';
import { sessionQuery } from './session.ts';

/** Schemas of the operator API. */
export type OperatorSchemas = components['schemas'];

/** Client of the operator API. */
export const operatorApi = createClient<paths>({ baseUrl: location.origin });

/** Returns whether an operator is signed in. */
export function useIsOperator(): boolean {
  return (useQuery(sessionQuery).data?.operator ?? null) !== null;
}
