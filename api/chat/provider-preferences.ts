/** Schema of the field `provider`, which OpenRouter's clients send. */
import { z } from 'zod';
import { rejectedField } from './field-schemas.ts';

const oneProvider = rejectedField('each model here has one provider');
/**
 * Schema of the preferences. Guarantees about data use, the choice of provider or the price are
 * rejected, because the gateway cannot give them. Other preferences are dropped.
 */
export const provider = z.object({
  data_collection: z
    .literal('allow', 'must be allow: how a provider uses data is not controlled here')
    .nullish(),
  zdr: z
    .literal(false, 'must be false: how long a provider stores data is not controlled here')
    .nullish(),
  only: oneProvider,
  ignore: oneProvider,
  quantizations: oneProvider,
  max_price: rejectedField('GET /api/v1/models lists the prices'),
});
