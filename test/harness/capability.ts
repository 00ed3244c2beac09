/** Calls a capability without a server: validates a body, plans it, and returns its rejection. */
import { parseWith } from '../../api/http/parsing.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Capability } from '../../studio/capability.ts';
import type { DraftPlan } from '../../studio/draft-plan.ts';

/** Returns the plan of a body. @throws the error of the capability */
export function planOf(capability: Capability, body: object): DraftPlan {
  return capability.plan(parseWith(capability.request, body));
}

/** Returns true if the schema and the plan both accept a body. */
export function takes(capability: Capability, body: object): boolean {
  try {
    planOf(capability, body);
    return true;
  } catch (error) {
    if (error instanceof GatewayError) return false;
    throw error;
  }
}

/** Returns the error with which a function rejects. */
export function gatewayErrorOf(run: () => unknown): GatewayError {
  try {
    run();
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('nothing was rejected');
}

/** Returns the error with which the schema or the plan rejects a body. */
export const rejectionOf = (capability: Capability, body: object): GatewayError =>
  gatewayErrorOf(() => planOf(capability, body));
