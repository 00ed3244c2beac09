/** The operators' API, as the console asks it: with the operator's session. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import createClient from 'openapi-fetch';
import type { components, paths } from './admin-schema.ts';
import { sessionQuery } from './session.ts';

/** Bodies of the operators' API by their names. */
export type OperatorSchemas = components['schemas'];

/** Client of the admin API with the cookie of the operator. */
export const operatorApi = createClient<paths>({ baseUrl: location.origin });

/** Whether an operator is signed in. */
export function useIsOperator(): boolean {
  return (useQuery(sessionQuery).data?.operator ?? null) !== null;
}

/** What operators are shown is asked again after each action. */
export function useOperatorRefresh(): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: ['operator'] });
}
