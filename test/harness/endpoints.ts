/**
 * The endpoints of the API for tests that call each of them; each path has a valid form and names
 * no existing row.
 */
import { endpoints } from '../../api/endpoints/index.ts';
import type { Endpoint } from '../../api/endpoints/endpoint.ts';

const zeros = '0'.repeat(32);
const words: Record<string, string> = {
  jobId: `job_${zeros}`,
  keyId: `key_${zeros}`,
  organizationId: `org_${zeros}`,
  userId: `usr_${zeros}`,
  operatorId: `opr_${zeros}`,
  provider: 'nobody',
  sessionId: `ses_${zeros}`,
  id: 'nothing',
};

/** An endpoint with such a path. */
export interface Walked extends Endpoint {
  /** The path of a request. */
  requestPath: string;
  takesBody: boolean;
}

const walk = (endpoint: Endpoint): Walked => ({
  ...endpoint,
  requestPath: endpoint.path.replaceAll(/[:*](\w+)/g, (_, name: string) => words[name] ?? name),
  takesBody: Boolean(endpoint.request.body ?? endpoint.request.content),
});

/** Endpoints of operators. */
export const ofOperators = endpoints.filter(({ scope }) => scope === 'admin').map(walk);
/** Endpoints of callers that need no key. */
export const ofEverybody = endpoints
  .filter(({ scope, id }) => scope === 'open' && id !== undefined)
  .map(walk);
const behindKeys = endpoints.filter(({ scope }) => scope !== 'admin' && scope !== 'open');
/** Endpoints of callers that need a key. */
export const ofCallers = behindKeys.filter(({ id }) => id !== undefined).map(walk);
/** Endpoints with a key in other protocols, which the OpenAPI document does not contain. */
export const ofProtocols = behindKeys.filter(({ id }) => id === undefined).map(walk);
