/** Activities of bulk jobs: `advance` counts ends and plans items, `answerItems` answers the items that are chats. */
import { Context } from '@temporalio/activity';
import type {
  AdvanceInput,
  AnswerChatsInput,
  AnsweredChats,
  BulkState,
} from '../domain/bulk-contract.ts';
import { advanceBulk, type AdvanceDeps } from '../bulk/bulk-advance.ts';
import { answerChats, type BulkChatDeps } from '../bulk/bulk-chats.ts';
import { correlate } from '../platform/logger.ts';
import { attempt } from './attempt.ts';

/** Runs the step of a bulk job. It may be repeated, and runs of it may overlap. */
export function advance(deps: AdvanceDeps, step: AdvanceInput): Promise<BulkState> {
  return attempt(() => advanceBulk(deps, step, Context.current().cancellationSignal));
}

/** Answers the waiting chats of a bulk job. It may be repeated, and runs of it may overlap. */
export function answerItems(
  deps: BulkChatDeps,
  { bulkId, organizationId }: AnswerChatsInput,
): Promise<AnsweredChats> {
  correlate({ organizationId });
  return attempt(() => answerChats(deps, bulkId, Context.current().cancellationSignal));
}
