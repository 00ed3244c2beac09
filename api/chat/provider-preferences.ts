/** `provider` of a chat request, as OpenRouter's clients send it. */
import { z } from 'zod';
import { rejectedField } from './field-schemas.ts';

const oneProvider = rejectedField('each model here has one provider');
/**
 * Schema of the preferences. Those that promise something about the data, the provider or
 * the price are rejected; the others are dropped.
 */
export const provider = z.object({
  data_collection: z
    .literal('allow', 'must be allow: how a provider uses data is not controlled here')
    .nullish(),
  zdr: z
    .literal(false, 'must be false: how a provider keeps data is not controlled here')
    .nullish(),
  only: oneProvider,
  ignore: oneProvider,
  quantizations: oneProvider,
  max_price: rejectedField('GET /api/v1/models lists the prices'),
});
