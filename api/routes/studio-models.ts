/**
 * GET /api/v1/studio/models and /studio/voices: what the Studio takes, from the very data that requests
 * are checked by (design §7).
 */
import type Router from '@koa/router';
import { z } from 'zod';
import { defaultVoiceName, voices } from '../../catalog/voices.ts';
import type { Capability } from '../../studio/capability.ts';
import { capabilities } from '../../studio/registry.ts';
import type { RequestState } from '../context.ts';
import { authorize } from '../middleware/authenticate.ts';

/** Adds the routes. */
export function addStudioModelRoutes(router: Router<RequestState>): void {
  // The tables are constants: the answer is made once.
  const published = capabilities.map(publish);

  router.get('/studio/models', (ctx) => {
    authorize(ctx.state.caller, 'studio:read');
    ctx.body = { success: true, data: published };
  });

  router.get('/studio/voices', (ctx) => {
    authorize(ctx.state.caller, 'studio:read');
    ctx.body = {
      success: true,
      data: voices.map(({ name, gender }) => ({
        name,
        gender,
        default: name === defaultVoiceName,
      })),
    };
  });
}

/** A kind of request: its fields as JSON Schema, and the limits of each model it may name. */
function publish(capability: Capability): Record<string, unknown> {
  const { type, path, medium, scope, request, models = [] } = capability;
  return {
    type,
    endpoint: `POST /api/v1${path}`,
    medium,
    scope,
    defaultModel: models[0]?.id ?? null,
    models,
    request: z.toJSONSchema(request, { io: 'input', unrepresentable: 'any' }),
  };
}
