/** The operators' API described; behind the admin key, as all of it. */
import { z } from 'zod';
import { defineOperation, section } from '../operation.ts';

/** The document. */
export const docs = section('Description', {
  getDescription: defineOperation({
    route: 'GET /api/admin/v1/openapi.json',
    summary: 'This description',
    answer: z.looseObject({ openapi: z.literal('3.1.0') }),
    handle: (_, { documents }) => documents.operators().document,
  }),
});
