/**
 * The endpoints of the API for tests that call each of them; each path has a valid form and names
 * no existing row.
 */
import { endpoints } from '../../api/endpoints/index.ts';
import type { Endpoint } from '../../api/endpoints/endpoint.ts';

const zeros = '0'.repeat(32);
const parameters: Record<string, string> = {
  jobId: `job_${zeros}`,
  keyId: `key_${zeros}`,
  organizationId: `org_${zeros}`,
  userId: `usr_${zeros}`,
  operatorId: `opr_${zeros}`,
  provider: 'nobody',
  sessionId: `ses_${zeros}`,
  id: 'nothing',
};

/** An endpoint, with what a request to it needs. */
export interface RequestedEndpoint extends Endpoint {
  /** The path with values of its parameters. */
  requestPath: string;
  takesBody: boolean;
}

const addRequest = (endpoint: Endpoint): RequestedEndpoint => ({
  ...endpoint,
  requestPath: endpoint.path.replaceAll(
    /[:*](\w+)/g,
    (_, name: string) => parameters[name] ?? name,
  ),
  takesBody: Boolean(endpoint.request.body ?? endpoint.request.content),
});

/** Endpoints of operators. */
export const operatorEndpoints = endpoints.filter(({ scope }) => scope === 'admin').map(addRequest);
/** Endpoints of callers that need no key. */
export const openEndpoints = endpoints
  .filter(({ scope, id }) => scope === 'open' && id !== undefined)
  .map(addRequest);
const behindKeys = endpoints.filter(({ scope }) => scope !== 'admin' && scope !== 'open');
/** Endpoints of callers that need a key. */
export const callerEndpoints = behindKeys.filter(({ id }) => id !== undefined).map(addRequest);
/** Endpoints with a key in other protocols, which the OpenAPI document does not contain. */
export const protocolEndpoints = behindKeys.filter(({ id }) => id === undefined).map(addRequest);
