/** Calls a capability without a server: validates a body, plans it, and returns its rejection. */
import { parseWith } from '../../domain/parsing.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Capability } from '../../studio/capabilities/capability.ts';
import type { DraftPlan, MeasuredPrice } from '../../domain/draft-plan.ts';
import {
  priceMeasured,
  type InputMeasurements,
  type MeasuredCall,
  type MeasuredInput,
} from '../../domain/measured-price.ts';
import { violationError } from '../../studio/pipelines/step-prices.ts';
import { catchGatewayError } from './failures.ts';

/** Returns the plan of a body. @throws the error of the capability */
export function planRequest(capability: Capability, body: object): DraftPlan {
  return capability.plan(parseWith(capability.request, body));
}

/** Prices a call by its measured inputs. @throws GatewayError for the violated limit */
export function priceByInput(price: MeasuredPrice, ...measured: InputMeasurements[]): MeasuredCall {
  const inputs = price.inputs.map(({ url }, index) => ({
    url,
    ...(measured[index] ?? measured[0]),
  }));
  const priced = priceMeasured(price.rule, inputs as MeasuredInput[]);
  if ('violates' in priced) throw violationError(price, priced);
  return priced;
}

/** Returns true if the schema and the plan both accept a body. */
export function isAccepted(capability: Capability, body: object): boolean {
  try {
    planRequest(capability, body);
    return true;
  } catch (error) {
    if (error instanceof GatewayError) return false;
    throw error;
  }
}

/** Returns the error with which the schema or the plan rejects a body. */
export const catchRejection = (capability: Capability, body: object): GatewayError =>
  catchGatewayError(() => planRequest(capability, body));
