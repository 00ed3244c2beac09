/** Draft → complete job plan: ids, money, deadlines and task queues, decided once (design §3.1). */
import { providerTraits } from '../../catalog/providers.ts';
import { microFromCredits } from '../../domain/credits.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Config } from '../../platform/config.ts';
import type { Capability, DraftPlan } from '../../studio/capability.ts';
import type { JobPlan, PlannedCall } from '../../studio/job-plan.ts';
import { providerTaskQueue } from '../../workflows/contract.ts';
import type { Caller } from '../identity/access.ts';

interface Planned {
  jobId: string;
  requestId: string;
  caller: Caller;
  capability: Capability;
  request: JsonObject;
  draft: DraftPlan;
}

/** Completes a draft. */
export function completePlan(config: Config, planned: Planned): JobPlan {
  const calls = planned.draft.calls.map((call, index): PlannedCall => ({
    index,
    meter: call.meter ?? 'artifact',
    quantity: call.quantity,
    unitPriceMicro: microFromCredits(call.unitPriceUsd / config.USD_PER_CREDIT),
    output: call.output,
    required: call.required,
    routes: call.routes.map((route) => ({
      ...route,
      ...providerTraits[route.provider],
      taskQueue: providerTaskQueue(config.TASK_QUEUE_PREFIX, route.provider),
    })),
  }));
  const deadlineMs = deadlineOf(config, planned.capability.medium);
  return {
    jobId: planned.jobId,
    organizationId: planned.caller.organizationId,
    keyId: planned.caller.keyId,
    requestId: planned.requestId,
    type: planned.capability.type,
    model: planned.draft.model,
    priceMicro: calls.reduce((sum, call) => sum + call.quantity * call.unitPriceMicro, 0),
    request: planned.request,
    calls,
    assembly: planned.draft.assembly ?? null,
    dispatch: config.CALL_DISPATCH,
    deadlineAt: new Date(Date.now() + deadlineMs).toISOString(),
    deadlineMs,
    checkIntervalMs: config.CHECK_INTERVAL_MS,
    outcomeWaitMs: config.OUTCOME_WAIT_MS,
    reservationTtlMs: config.RESERVATION_TTL_MS,
  };
}

/** How long work of this kind may take before it is given up. */
function deadlineOf(config: Config, medium: Capability['medium']): number {
  const deadlines = {
    image: config.IMAGE_DEADLINE_MS,
    video: config.VIDEO_DEADLINE_MS,
    audio: config.AUDIO_DEADLINE_MS,
  };
  return deadlines[medium];
}
