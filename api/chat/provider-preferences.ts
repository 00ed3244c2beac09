/** Schema of the field `provider`, which OpenRouter's clients send. */
import { z } from 'zod';
import { createRejectedField } from './field-schemas.ts';

const oneProvider = createRejectedField('each model of the gateway has one provider');
/**
 * Schema of OpenRouter's provider preferences. Preferences that demand a guarantee about data use,
 * the provider or the price are rejected, because the gateway cannot give it. Other preferences are
 * dropped.
 */
export const providerPreferencesSchema = z.object({
  data_collection: z
    .literal('allow', 'must be allow: the gateway cannot control how a provider uses data')
    .nullish(),
  zdr: z
    .literal(false, 'must be false: the gateway cannot control how long a provider stores data')
    .nullish(),
  only: oneProvider,
  ignore: oneProvider,
  quantizations: oneProvider,
  max_price: createRejectedField('GET /api/v1/models lists the prices'),
});
