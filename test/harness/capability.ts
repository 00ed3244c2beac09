/** A capability as its contract: what it takes, plans and refuses, without any server. */
import { GatewayError } from '../../domain/errors.ts';
import type { Capability, DraftPlan } from '../../studio/capability.ts';

/** The plan of a body. @throws what the capability throws */
export function planOf(capability: Capability, body: object): DraftPlan {
  return capability.plan(capability.request.parse(body));
}

/** Whether schema and plan both take a body. */
export function takes(capability: Capability, body: object): boolean {
  const parsed = capability.request.safeParse(body);
  if (!parsed.success) return false;
  try {
    capability.plan(parsed.data);
    return true;
  } catch (error) {
    if (error instanceof GatewayError) return false;
    throw error;
  }
}

/** How the plan refuses a body that the schema takes. */
export function refusalOf(capability: Capability, body: object): GatewayError {
  try {
    planOf(capability, body);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('the request was taken');
}
