/** Client of the operators' API with the operator's session. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import createClient from 'openapi-fetch';
import type { components, paths } from './admin-schema.ts';
import { sessionQuery } from './session.ts';

/** Schemas of the operators' API by name. */
export type OperatorSchemas = components['schemas'];

/** Client of the admin API with the cookie of the operator. */
export const operatorApi = createClient<paths>({ baseUrl: location.origin });

/** Returns whether an operator is signed in. */
export function useIsOperator(): boolean {
  return (useQuery(sessionQuery).data?.operator ?? null) !== null;
}

/** Returns a function that reads all operators' data again, after an action. */
export function useOperatorRefresh(): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: ['operator'] });
}
