/** GET /api/v1/chats/{id}: returns the tokens and the charge of one chat. */
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { toData, dataSchema, pathId } from './fields.ts';
import { formatUsageRecord, usageRecord } from './usage.ts';

/** Endpoint that returns the usage record of a chat. */
export const chats = defineSection('Chat', {
  getChat: defineEndpoint({
    route: 'GET /api/v1/chats/:chatId',
    scope: 'usage:read',
    summary: 'Get the tokens and the charge of a chat',
    description:
      'The chat id is the `id` in the response of every chat endpoint and in every event of a stream.',
    request: { params: z.object({ chatId: pathId('chat') }) },
    answer: dataSchema(usageRecord),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { chatId } }, { usageReads }) {
      const record = await usageReads.chat(caller.organizationId, chatId);
      if (!record) throw new GatewayError('NOT_FOUND', 'No such chat.');
      return toData(formatUsageRecord(record));
    },
  }),
});
