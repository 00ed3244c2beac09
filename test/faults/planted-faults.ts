/**
 * Known faults that the tests must find: a text of the sources, its faulty replacement, and the
 * tests that must fail.
 */

/** A fault in one file; `original` occurs there exactly once. */
export interface Fault {
  name: string;
  file: string;
  original: string;
  planted: string;
  tests: string[];
}

const ledger = 'test/ledger/ledger.test.ts';
const ledgerSql = 'ledger/ledger.sql';
const decisionsSql = 'ledger/ledger-decisions.sql';
const jobsSql = 'ledger/ledger-jobs.sql';

const money: Fault[] = [
  {
    name: 'an unsent call is noted for any sender',
    file: 'providers/calls.sql',
    original: 'AND c.sender_id = a."senderId"',
    planted: '',
    tests: ['test/providers/call-records.test.ts'],
  },
  {
    name: 'an attempt that could not send its call does not note it',
    file: 'activities/submit.ts',
    original: 'deps.records.noteUnsent(callAttempt);',
    planted: '',
    tests: ['test/activities/submit.test.ts'],
  },
  {
    name: 'a reservation reads its account without a lock',
    file: ledgerSql,
    original: 'ORDER BY organization_id FOR UPDATE);',
    planted: 'ORDER BY organization_id);',
    tests: [ledger, 'test/ledger/locks.test.ts'],
  },
  {
    name: 'a balance does not bound reservations',
    file: decisionsSql,
    original: 'ELSIF available < price THEN',
    planted: 'ELSIF false THEN',
    tests: [ledger],
  },
  {
    name: 'a release charges the reservation',
    file: decisionsSql,
    original: 'a.posted := a.posted - price;',
    planted: 'a.posted := a.posted - CASE WHEN is_charge THEN price ELSE r.amount END;',
    tests: [ledger],
  },
  {
    name: 'a settlement is repeated',
    file: decisionsSql,
    original: "ELSIF r.state <> 'reserved' THEN",
    planted: 'ELSIF false THEN',
    tests: [ledger],
  },
  {
    name: 'a grant is repeated',
    file: decisionsSql,
    original: 'ELSIF granted_amount IS NOT NULL THEN',
    planted: 'ELSIF false THEN',
    tests: [ledger],
  },
  {
    name: 'a job costs at most its reservation',
    file: decisionsSql,
    original: "CASE WHEN is_charge THEN (operation->>'amount')::bigint ELSE 0 END;",
    planted:
      "CASE WHEN is_charge THEN least((operation->>'amount')::bigint, CASE r.kind WHEN 'studio' THEN r.amount END) ELSE 0 END;",
    tests: ['test/ledger/budgets.test.ts'],
  },
  {
    name: 'released credits go to a later window',
    file: decisionsSql,
    original: 'IF a.window_started_at = r.window_started_at THEN',
    planted: "IF r.kind = 'studio' THEN",
    tests: ['test/ledger/window.test.ts'],
  },
  {
    name: 'a window never ends',
    file: decisionsSql,
    original:
      'IF is_studio AND (decided_at < ledger_window_end(a.window_started_at)) IS NOT TRUE THEN',
    planted: 'IF is_studio AND a.window_started_at IS NULL THEN',
    tests: ['test/ledger/window.test.ts'],
  },
  {
    name: 'a release is booked on the day of the release',
    file: ledgerSql,
    original: `((d.r).created_at AT TIME ZONE 'UTC')::date`,
    planted: `(clock_timestamp() AT TIME ZONE 'UTC')::date`,
    tests: ['test/ledger/budgets.test.ts'],
  },
  {
    name: 'a budget does not count the other operations of its batch',
    file: ledgerSql,
    original: 'clock_timestamp(), spends)',
    planted: 'clock_timestamp(), NULL)',
    tests: ['test/ledger/budgets.test.ts', 'test/ledger/batches.test.ts'],
  },
  {
    name: 'a chat is charged only what the balance can pay when it ends',
    file: decisionsSql,
    original: "THEN (operation->>'amount')::bigint ELSE 0 END;",
    planted:
      "THEN least((operation->>'amount')::bigint, r.amount + greatest(0, a.posted - a.reserved)) ELSE 0 END;",
    tests: ['test/chat/uncountable-input.test.ts', 'test/chat/settlements.test.ts'],
  },
  {
    name: 'a chat may reserve everything that is free',
    file: decisionsSql,
    original: "free / (operation->>'freeDivisor')::bigint",
    planted: 'free',
    tests: ['test/chat/reservations.test.ts'],
  },
  {
    name: 'a chat reserves less than an expected answer',
    file: decisionsSql,
    original: "greatest((operation->>'amountExpected')::bigint, free /",
    planted: "greatest((operation->>'amountMin')::bigint, free /",
    tests: ['test/chat/reservations.test.ts'],
  },
  {
    name: 'a grant that leaves the balance negative is rejected',
    file: decisionsSql,
    original: 'ELSIF change < 0 AND a.posted - a.reserved + change < 0 THEN',
    planted: 'ELSIF a.posted - a.reserved + change < 0 THEN',
    tests: ['test/chat/uncountable-input.test.ts'],
  },
  {
    name: 'refunds exceed the charge',
    file: decisionsSql,
    original: '(change BETWEEN 1 AND refundable) IS NOT TRUE',
    planted: 'change < 1',
    tests: ['test/ledger/refunds.test.ts'],
  },
  {
    name: 'refunds are added to the budget of the key',
    file: ledgerSql,
    original: "IF (d.r).budget_id IS NOT NULL AND d.kind <> 'refund' THEN",
    planted: 'IF (d.r).budget_id IS NOT NULL THEN',
    tests: ['test/journeys/refunds.test.ts'],
  },
  {
    name: 'a settled job keeps its old status',
    file: jobsSql,
    original: "WHERE j IS NOT NULL AND answer->>'verdict' = 'settled' AND job.id = r.id;",
    planted: 'WHERE false;',
    tests: ['test/ledger/budgets.test.ts'],
  },
  {
    name: 'the sweep of chats does not look again under the lock',
    file: 'chat/chat.sql',
    original:
      "WHERE r.id = due.id AND r.state = 'reserved' AND r.expires_at < clock_timestamp() FOR UPDATE;",
    planted: "WHERE r.id = due.id AND r.state = 'reserved' FOR UPDATE;",
    tests: ['test/ledger/locks.test.ts'],
  },
  {
    name: 'prices are rounded down',
    file: 'domain/credits.ts',
    original: 'const micro = Math.ceil(',
    planted: 'const micro = Math.floor(',
    tests: ['test/studio/prices.test.ts'],
  },
  {
    name: 'more units are charged than were requested',
    file: 'domain/job-plan.ts',
    original: 'Math.min(delivered, call.quantityMax ?? call.quantity)',
    planted: 'delivered',
    tests: ['test/providers/call-results.test.ts'],
  },
  {
    name: 'failed calls of a job are charged',
    file: 'domain/job-plan.ts',
    original: 'const { delivered = 0, discountMicro = 0 }',
    planted: 'const { delivered = call.quantity, discountMicro = 0 }',
    tests: ['test/providers/call-results.test.ts'],
  },
  {
    name: 'a rotated key with a limit changes limits',
    file: 'ledger/budgets.sql',
    original: 'IF key_is_limited(acting_key.id) THEN',
    planted: 'IF acting_key.limit_micro IS NOT NULL THEN',
    tests: ['test/ledger/budgets.test.ts'],
  },
  {
    name: 'the limit of open jobs does not count the other jobs of its batch',
    file: 'ledger/budgets.sql',
    original: `UNION ALL SELECT budget_id FROM unnest(unwritten)
      WHERE organization_id = organization AND`,
    planted: `UNION ALL SELECT budget_id FROM unnest(unwritten)
      WHERE false AND`,
    tests: ['test/ledger/batches.test.ts'],
  },
  {
    name: 'starts of one organization go before those of others',
    file: 'studio/jobs/admission.ts',
    original: 'limiter.enter(plan.organizationId,',
    planted: `limiter.enter('all',`,
    tests: ['test/studio/admission.test.ts'],
  },
  {
    name: 'jobs queue in a busy worker in front of those of others',
    file: 'studio/jobs/admission.ts',
    original: 'Math.max(startedAtMs, decidedAtMs)',
    planted: 'startedAtMs',
    tests: ['test/studio/admission.test.ts'],
  },
  {
    name: 'keys that share a limit of requests have windows of their own',
    file: 'identity/access.sql',
    original: 'coalesce(h.id, a.id) AS "windowOwner"',
    planted: 'a.id AS "windowOwner"',
    tests: ['test/identity/rate-limits.test.ts'],
  },
  {
    name: 'a user may make no more requests than keys without limits',
    file: 'identity/access.sql',
    original: 'greatest(requests_default,',
    planted: 'coalesce(requests_default,',
    tests: ['test/identity/rate-limits.test.ts'],
  },
  {
    name: 'a key with a limit of requests rotates a key without limits',
    file: 'identity/keys.sql',
    original: 'IF excess IS NULL AND key_is_limited(acting_key.id)',
    planted: 'IF excess IS NULL AND key_budget(acting_key.id) IS NOT NULL',
    tests: ['test/journeys/key-limits.test.ts'],
  },
  {
    name: 'a sum of more than 10,000 groups is cut off',
    file: 'api/endpoints/usage-summary.ts',
    original: 'limit: rowsMax + 1,',
    planted: 'limit: rowsMax,',
    tests: ['test/journeys/metadata.test.ts'],
  },
  {
    name: 'usage is summed by the days of another time zone',
    file: 'ledger/usage-days.sql',
    original: "starts timestamptz := first_day::timestamp AT TIME ZONE 'UTC';",
    planted: 'starts timestamptz := first_day::timestamptz;',
    tests: ['test/ledger/usage-sums.test.ts'],
  },
  {
    name: 'the audit of all rows ends before the last page of reservations',
    file: 'ledger/invariants.ts',
    original: 'isLast = count < pageRows;',
    planted: 'isLast = count <= pageRows;',
    tests: ['test/ledger/audit.slow.test.ts'],
  },
  {
    name: 'the audit does not look for entries behind the last reservation',
    file: 'ledger/invariants.ts',
    original: 'THEN greatest(max(id), $3) ELSE',
    planted: 'THEN greatest(max(id), left($3, 0)) ELSE',
    tests: ['test/ledger/audit.slow.test.ts'],
  },
  {
    name: 'one organization reads all pieces of kept answers at the same time',
    file: 'ledger/claims.ts',
    original: 'pieceTurns.enter(organizationId, pieceWaitMs)',
    planted: 'pieceTurns.enter(String(offset), pieceWaitMs)',
    tests: ['test/attacks/hostile-load.slow.test.ts'],
  },
  {
    name: 'settlements that follow while the database is away are not counted',
    file: 'ledger/observed-ledgers.ts',
    original: '[...ids, ...pending]',
    planted: 'ids',
    tests: [ledger],
  },
];

const bulkSql = 'studio/bulk/bulk.sql';
const bulkBudget = 'test/bulk/bulk-budget.slow.test.ts';
const bulkTests = 'test/bulk/bulk.test.ts';
const bulkRecovery = 'test/bulk/bulk-recovery.test.ts';

const bulk: Fault[] = [
  {
    name: 'the budget of a bulk job counts only charged credits',
    file: bulkSql,
    original: 'IF b.charged + b.reserved + s.price > b.max_credits THEN',
    planted: 'IF b.charged + s.price > b.max_credits THEN',
    tests: [bulkBudget],
  },
  {
    name: 'a bulk job counts the end of an item twice',
    file: bulkSql,
    original: "AND i.state = 'running' AND j.id = i.job_id AND j.status <> 'open'",
    planted: "AND j.id = i.job_id AND j.status <> 'open'",
    tests: [bulkBudget],
  },
  {
    name: 'a bulk job reserves the former price of an item',
    file: bulkSql,
    original: 'b.running := b.running + 1; b.reserved := b.reserved + s.price;',
    planted: 'b.running := b.running + 1; b.reserved := b.reserved + former;',
    tests: [bulkBudget],
  },
  {
    name: 'a bulk job goes on with a revoked key',
    file: bulkSql,
    original: 'WHERE k.revoked_at IS NULL AND (k.expires_at',
    planted: 'WHERE (k.expires_at',
    tests: [bulkTests],
  },
  {
    name: 'a bulk job stops before its whole budget is used',
    file: bulkSql,
    original: 'IF b.charged + b.reserved + next.price > b.max_credits THEN',
    planted: 'IF b.charged + b.reserved + next.price >= b.max_credits THEN',
    tests: [bulkTests],
  },
  {
    name: 'a retried item of a bulk job keeps its failed job',
    file: bulkSql,
    original: 'round = i.round + 1, job_id = NULL, error = NULL,',
    planted: 'round = i.round + 1, error = NULL,',
    tests: [bulkTests],
  },
  {
    name: 'an item of a bulk job whose start was lost gets another job',
    file: 'studio/bulk/bulk-advance.ts',
    original: "jobId: jobId ?? newId('job')",
    planted: "jobId: newId('job')",
    tests: [bulkTests],
  },
  {
    name: 'items of a bulk job are as urgent as single jobs',
    file: 'workflows/studio-bulk.ts',
    original: 'priority: { fairnessKey: organizationId, priorityKey: 4 },',
    planted: 'priority: { fairnessKey: organizationId, priorityKey: 3 },',
    tests: [bulkTests],
  },
  {
    name: 'a page of items of a bulk job begins one item too late',
    file: 'api/endpoints/bulk-jobs.ts',
    original: 'cursor === undefined ? undefined : Number(cursor)',
    planted: 'cursor === undefined ? undefined : Number(cursor) + 1',
    tests: [bulkTests],
  },
  {
    name: 'a bulk job that continues as new forgets its running jobs',
    file: 'workflows/studio-bulk.ts',
    original: 'if (running > live.size || state.hasMore',
    planted: 'if (state.hasMore',
    tests: [bulkRecovery],
  },
  {
    name: 'a bulk job goes on for a suspended organization',
    file: bulkSql,
    original: "= 'suspended' THEN 'ORGANIZATION_SUSPENDED'",
    planted: "= 'closed' THEN 'ORGANIZATION_SUSPENDED'",
    tests: [bulkRecovery],
  },
  {
    name: 'a bulk job without a workflow stays open',
    file: 'studio/bulk/bulk-workflow.ts',
    original: 'if (!bulk.missing) {',
    planted: 'if (bulk.id) {',
    tests: [bulkRecovery],
  },
  {
    name: 'the first failures stop a bulk job',
    file: bulkSql,
    original: 'WHEN b.completed + b.failed >= 20',
    planted: 'WHEN b.completed + b.failed >= 2',
    tests: [bulkRecovery],
  },
  {
    name: 'an item starts although its bulk job was paused meanwhile',
    file: bulkSql,
    original: "EXIT WHEN b.status <> 'in_progress' OR b.running >= b.concurrency;",
    planted: 'EXIT WHEN b.running >= b.concurrency;',
    tests: [bulkBudget],
  },
  {
    name: 'results of a bulk job lack one between two portions',
    file: 'studio/bulk/bulk-reads.ts',
    original: 'after = portion.at(-1)?.item.end_number ?? null;',
    planted: 'after = portion.length > 0 ? (portion.at(-1)?.item.end_number ?? 0) + 1 : null;',
    tests: [bulkBudget],
  },
  {
    name: 'results of a bulk job lack canceled items',
    file: bulkSql,
    original: 'b.last_end := b.last_end + 1 + last;\n    b.waiting :=',
    planted: 'b.waiting :=',
    tests: [bulkBudget],
  },
  {
    name: 'a retried item of a bulk job keeps the number of its end',
    file: bulkSql,
    original: 'ended_at = NULL, end_number = NULL',
    planted: 'ended_at = NULL',
    tests: [bulkBudget],
  },
];

const pipelineJourneys = 'test/journeys/pipelines.test.ts';
const pipelineWorkflow = 'workflows/pipeline.ts';

const pipelines: Fault[] = [
  {
    name: 'a resumed pipeline pays again for the results that it takes over',
    file: 'studio/pipelines/step-draft.ts',
    original: 'chargedMicro: 0,',
    planted: 'chargedMicro: output.chargedMicro ?? 0,',
    tests: [pipelineJourneys],
  },
  {
    name: 'a fork of a pipeline takes over the result of a dependent step',
    file: 'studio/pipelines/resume.ts',
    original: 'step.id === from || dependsOnRunning)',
    planted: 'step.id === from)',
    tests: [pipelineJourneys],
  },
  {
    name: 'a canceled pipeline does not pay for delivered steps',
    file: pipelineWorkflow,
    original: 'if (run.every(({ error }) => error)) throw',
    planted: 'if (job.signals.cancelRequested || run.every(({ error }) => error)) throw',
    tests: [pipelineJourneys],
  },
  {
    name: 'a step of a pipeline takes the first output instead of the named one',
    file: 'studio/pipelines/step-draft.ts',
    original: 'output: { callIndex, artifactIndex },',
    planted: 'output: { callIndex, artifactIndex: 0 },',
    tests: [pipelineJourneys],
  },
  {
    name: 'a step of a pipeline runs although one failed whose result it takes',
    file: pipelineWorkflow,
    original: 'const failedSource = ended.find(({ error }) => error);',
    planted: 'const failedSource = ended.find(() => false);',
    tests: ['test/workflows/pipelines.test.ts'],
  },
  {
    name: 'a failed step fails the whole pipeline',
    file: pipelineWorkflow,
    original: 'if (run.every(({ error }) => error)) throw',
    planted: 'if (run.some(({ error }) => error)) throw',
    tests: ['test/workflows/pipelines.test.ts'],
  },
  {
    name: 'a step of a pipeline is called above its maximum price',
    file: 'domain/pipeline-plan.ts',
    original: 'if (priceMicro <= step.priceMicro) return completed;',
    planted: 'if (priceMicro > 0) return completed;',
    tests: ['test/domain/pipeline-plan.test.ts'],
  },
  {
    name: 'a step of a pipeline pays for the planned film instead of the measured one',
    file: 'domain/pipeline-plan.ts',
    original: "if (open.kind === 'media') return priceMediaCall(step, { ...call, open }, values);",
    planted: "if (open.kind === 'media') return call;",
    tests: ['test/domain/pipeline-plan.test.ts'],
  },
];

const chat: Fault[] = [
  {
    name: 'more cached tokens than input are believed',
    file: 'chat/bill.ts',
    original: 'Math.min(cachedInputTokens, inputTokens)',
    planted: 'cachedInputTokens',
    tests: ['test/chat/input-count.test.ts'],
  },
  {
    name: 'more cache writes than the rest of the input are believed',
    file: 'chat/bill.ts',
    original: 'inputTokens - cached);',
    planted: 'Infinity);',
    tests: ['test/chat/input-count.test.ts'],
  },
  {
    name: 'audio tokens replace cached tokens',
    file: 'chat/bill.ts',
    original: 'Math.min(audio, inputTokens - cached - written)',
    planted: 'audio',
    tests: ['test/chat/input-count.test.ts'],
  },
  {
    name: 'an absurd number of output tokens drops the report',
    file: 'chat/bill.ts',
    original: '? (reported.outputTokens ?? counts.outputTokens)',
    planted:
      '? ((reported.outputTokens ?? 0) > 1e6 ? counts.outputTokens : (reported.outputTokens ?? counts.outputTokens))',
    tests: ['test/chat/input-count.test.ts', 'test/chat/endings.test.ts'],
  },
  {
    name: 'a report of usage has no maximum',
    file: 'chat/bill.ts',
    original: 'Math.min(counted, request?.usageMax.outputTokens ?? 0)',
    planted: 'counted',
    tests: ['test/chat/input-count.test.ts'],
  },
  {
    name: 'an error status of the provider does not make leaving free',
    file: 'chat/upstreams.ts',
    original: '      sent.onRejected();\n',
    planted: '',
    tests: ['test/chat/unusual-providers.test.ts'],
  },
  {
    name: 'a response shows a price that is not settled',
    file: 'chat/chat-checkpoints.ts',
    original: 'setTimeout(() => resolve(null), settleWaitMs)',
    planted: 'setTimeout(() => resolve(settle.amountMicro), settleWaitMs)',
    tests: ['test/chat/settlements.test.ts'],
  },
  {
    name: 'comments of a provider keep its stream open',
    file: 'chat/chat-run.ts',
    original: '      () => this.#cancellation.abort(providerTimeout()),\n',
    planted: '      () => {},\n',
    tests: ['test/chat/unusual-providers.test.ts'],
  },
  {
    name: 'tool calls and other objects are not counted as input',
    file: 'chat/input-count.ts',
    original:
      "else if (typeof value === 'object' && value !== null) meter.add(JSON.stringify(value));",
    planted: '',
    tests: ['test/chat/input-count.test.ts'],
  },
  {
    name: 'names of messages are not counted as input',
    file: 'chat/input-count.ts',
    original: 'countPart(part, meter, media);\n  return countFields(fields, meter);',
    planted: 'countPart(part, meter, media);',
    tests: ['test/chat/input-count.test.ts'],
  },
  {
    name: 'cached input is not charged',
    file: 'chat/bill.ts',
    original: 'cachedInputTokens * price.cachedInputUsdPerMillion +',
    planted: '',
    tests: ['test/chat/prompt-cache.test.ts'],
  },
  {
    name: 'a chat that failed before it delivered anything is charged',
    file: 'chat/bill.ts',
    original: "(end === 'broken' && !hasDelivered)",
    planted: 'false',
    tests: ['test/chat/endings.test.ts'],
  },
  {
    name: 'a caller who disconnects early pays nothing',
    file: 'chat/bill.ts',
    original: "(end === 'left' && !mayBeBilled)",
    planted: "end === 'left'",
    tests: ['test/chat/disconnects.test.ts'],
  },
  {
    name: 'a chat reserves for an Idempotency-Key that another request holds',
    file: decisionsSql,
    original:
      "ELSIF operation ? 'claim' AND NOT holds_claim(a.organization_id, operation->'claim') THEN",
    planted: 'ELSIF false THEN',
    tests: ['test/ledger/batches.test.ts'],
  },
  {
    name: 'the sweep of chats postpones the reservations of jobs',
    file: 'chat/chat-ledger.ts',
    original: "WHERE state = 'reserved' AND kind = 'chat' AND expires_at < now()",
    planted: "WHERE state = 'reserved' AND expires_at < now()",
    tests: ['test/ledger/locks.test.ts'],
  },
  {
    name: 'free cached input is charged like other input',
    file: 'chat/models.ts',
    original: '(cached !== undefined && {',
    planted: '(cached && {',
    tests: ['test/chat/models.test.ts'],
  },
  {
    name: 'the start of a key at the end of a long message is shown',
    file: 'chat/upstream-failures.ts',
    original: "      .replaceAll(secrets, '…')\n",
    planted: "      .slice(0, messageLengthMax)\n      .replaceAll(secrets, '…')\n",
    tests: ['test/chat/openai-client.test.ts'],
  },
];

const oddAnswers = ['test/chat/odd-answers.test.ts'];
const conversationTests = ['test/chat/conversations.test.ts'];

const conversations: Fault[] = [
  {
    name: 'parallel tool calls of one index are joined',
    file: 'chat/protocols/streamed-choice.ts',
    original: 'return !sameId && sameIndex?.continuesAtIndex(piece) ? sameIndex : undefined;',
    planted: 'return sameIndex;',
    tests: oddAnswers,
  },
  {
    name: 'an answer with a tool call ends as its provider says',
    file: 'chat/protocols/streamed-choice.ts',
    original: "return this.#sentCalls > 0 ? 'tool_calls' : 'stop';",
    planted: 'return reason;',
    tests: oddAnswers,
  },
  {
    name: 'an answer without output is a success',
    file: 'chat/protocols/openai-answer.ts',
    original: 'return finished > 0 || choices.some(({ hasOutput }) => hasOutput);',
    planted: 'return true;',
    tests: oddAnswers,
  },
  {
    name: 'ids of tool calls reach each provider as they are',
    file: 'chat/protocols/call-ids.ts',
    original: 'if (repetition === 0 && valid.test(id)) return id;',
    planted: 'if (repetition === 0 || valid.test(id)) return id;',
    tests: conversationTests,
  },
  {
    name: 'thoughts of another provider reach Anthropic',
    file: 'chat/protocols/anthropic-thinking.ts',
    original: 'if (provider !== model.provider) return [];',
    planted: "if (provider === '') return [];",
    tests: conversationTests,
  },
  {
    name: 'the results of a tool call stay apart',
    file: 'chat/chat-body.ts',
    original: 'const earlier = openCalls.get(id) ? undefined : results.get(id);',
    planted: 'const earlier = undefined as ToolMessage | undefined;',
    tests: conversationTests,
  },
  {
    name: 'a replay does not name the hints that its provider ignored',
    file: 'api/endpoints/chat-answer.ts',
    original: "const names = ['Content-Type', ignoredFieldsHeader];",
    planted: "const names = ['Content-Type'];",
    tests: ['test/chat/idempotency.test.ts'],
  },
  {
    name: 'embeddings may have any number of decimals',
    file: 'chat/formats/embeddings-request.ts',
    original: 'const decimalsMax = inputsMax * 1536;',
    planted: 'const decimalsMax = inputsMax * 15_360;',
    tests: ['test/chat/embeddings.test.ts'],
  },
];

const access: Fault[] = [
  {
    name: 'a late event loop rejects nothing',
    file: 'api/middleware/request-shares.ts',
    original: 'lateSamples >= lateSamplesMin',
    planted: 'lateSamples > 1_000_000',
    tests: ['test/attacks/hostile-load.slow.test.ts'],
  },
  {
    name: 'cookies are never Secure',
    file: 'identity/sessions.ts',
    original: `protocol === 'https:'`,
    planted: 'protocol === null',
    tests: ['test/identity/sessions.test.ts'],
  },
  {
    name: 'a user sees the sessions of other users',
    file: 'identity/sessions.ts',
    original: 'WHERE k.user_id = ${userId} AND k.revoked_at IS NULL',
    planted: 'WHERE k.revoked_at IS NULL AND ${userId} IS NOT NULL',
    tests: ['test/identity/sessions.test.ts'],
  },
  {
    name: 'a user ends the sessions of other users',
    file: 'identity/sessions.ts',
    original: 'AND k.id = s.key_id AND k.user_id = ${userId}',
    planted: 'AND k.id = s.key_id AND ${userId} IS NOT NULL',
    tests: ['test/identity/sessions.test.ts'],
  },
  {
    name: 'a session never expires',
    file: 'identity/sessions.ts',
    original: 'WHERE s.token_hash = ${hashToken(ctx)} AND s.expires_at > clock_timestamp()',
    planted: 'WHERE s.token_hash = ${hashToken(ctx)}',
    tests: ['test/identity/sessions.test.ts'],
  },
  {
    name: 'a revoked key, and a session of it, are admitted',
    file: 'identity/access.sql',
    original: 'WHERE a.revoked_at IS NULL AND (a.expires_at',
    planted: 'WHERE (a.expires_at',
    tests: ['test/identity/access.test.ts'],
  },
  {
    name: 'an expired key is admitted',
    file: 'identity/access.sql',
    original: 'AND (a.expires_at IS NULL OR a.expires_at > at)',
    planted: '',
    tests: ['test/identity/access.test.ts'],
  },
  {
    name: 'parallel requests create more keys than a user may have',
    file: 'identity/keys.sql',
    original: "WHERE id = request->>'userId' FOR NO KEY UPDATE;\n  IF NOT FOUND",
    planted: "WHERE id = request->>'userId';\n  IF NOT FOUND",
    tests: ['test/identity/keys.test.ts'],
  },
  {
    name: 'keys whose overlap has ended count toward the quota of rotations',
    file: 'identity/keys.sql',
    original: 'replaced_by IS NOT NULL AND expires_at > at));',
    planted: 'replaced_by IS NOT NULL));',
    tests: ['test/identity/keys.test.ts'],
  },
  {
    name: 'a key creates a key with more scopes',
    file: 'identity/keys.sql',
    original: "WHEN NOT requested.scopes <@ acting_key.scopes THEN 'scopes'",
    planted: "WHEN false THEN 'scopes'",
    tests: ['test/identity/keys.test.ts'],
  },
  {
    name: 'a key reads the jobs of other organizations',
    file: 'studio/jobs/job-reads.ts',
    original: 'sql.fragment`x.organization_id = ${organizationId} AND x.id = ${jobId}`',
    planted: 'sql.fragment`${organizationId} <> ${jobId} AND x.id = ${jobId}`',
    tests: ['test/attacks/tenants.test.ts'],
  },
  {
    name: 'a sign-in link works twice',
    file: 'api/endpoints/session.ts',
    original: `DELETE FROM sign_in_link l USING api_key k
        WHERE l.token_hash = decode(\${hashToken(token)}, 'hex') AND l.expires_at > clock_timestamp()
          AND k.id = l.key_id AND k.revoked_at IS NULL
          AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
        RETURNING k.id AS "keyId"`,
    planted: `SELECT k.id AS "keyId" FROM sign_in_link l, api_key k
        WHERE l.token_hash = decode(\${hashToken(token)}, 'hex') AND k.id = l.key_id`,
    tests: ['test/identity/sessions.test.ts'],
  },
  {
    name: 'an Idempotency-Key returns the response to another request',
    file: 'ledger/claims.sql',
    original: 'IF c.fingerprint <> request_fingerprint THEN',
    planted: 'IF false THEN',
    tests: ['test/journeys/replayed-jobs.test.ts', 'test/chat/idempotency.test.ts'],
  },
  {
    name: 'a NUL in a query reaches the database',
    file: 'api/endpoints/runner.ts',
    original: 'if (unstorable !== undefined) {',
    planted: 'if (false) {',
    tests: ['test/api/admin.test.ts'],
  },
  {
    name: 'private addresses are read',
    file: 'platform/outbound.ts',
    original: 'if (!isPublicHost(host)) throwBlocked(notPublicMessage);',
    planted: '',
    tests: ['test/platform/outbound.test.ts'],
  },
  {
    name: 'redirects are followed unchecked',
    file: 'platform/outbound.ts',
    original: 'url = check(new URL(location, url.href).href);',
    planted: 'url = new URL(location, url.href);',
    tests: ['test/platform/outbound.test.ts'],
  },
  {
    name: 'a narrow key rotates a key that may use all models',
    file: 'identity/keys.sql',
    original: 'AND (requested.allowed_models IS NULL OR NOT requested.allowed_models',
    planted: 'AND (NOT requested.allowed_models',
    tests: ['test/identity/keys.test.ts'],
  },
  {
    name: 'operators do not see an unknown outcome of a completed job',
    file: jobsSql,
    original: "coalesce(j->'outputs', '[]'), '$[*].error'",
    planted: "'[]', '$[*].error'",
    tests: ['test/journeys/operator-actions.test.ts'],
  },
  {
    name: 'a long poll does not give its place back',
    file: 'api/middleware/request-shares.ts',
    original: 'onceClosed(ctx, place.release);',
    planted: '',
    tests: ['test/attacks/open-waits.test.ts'],
  },
  {
    name: 'a suspended organization keeps its event streams',
    file: 'studio/jobs/stream-timer.ts',
    original: " AND o.status = 'active'",
    planted: '',
    tests: ['test/attacks/open-waits.test.ts'],
  },
  {
    name: 'a download with a signal has no time limit',
    file: 'platform/outbound.ts',
    original: 'AbortSignal.any([deadline, limits.signal])',
    planted: 'limits.signal',
    tests: ['test/platform/outbound.test.ts'],
  },
];

const providers: Fault[] = [
  {
    name: 'keys of fal never expire',
    file: 'providers/fal/index.ts',
    original: 'performance.now() - fetchedAtMs < keysAgeMaxMs',
    planted: 'performance.now() - fetchedAtMs < Infinity',
    tests: ['test/providers/fal-notifications.test.ts'],
  },
  {
    name: 'old notifications are accepted',
    file: 'providers/fal/index.ts',
    original: '> timestampSkewMaxSeconds) {',
    planted: '> Infinity) {',
    tests: [
      'test/attacks/notification-forgeries.test.ts',
      'test/providers/provider-notifications.test.ts',
    ],
  },
  {
    name: 'the MAC of a notification URL is not checked',
    file: 'providers/notifications.ts',
    original: 'isSecret(mac, computeMac(address))',
    planted: "mac !== macOf({ ...address, jobId: '' })",
    tests: [
      'test/attacks/notification-forgeries.test.ts',
      'test/providers/provider-notifications.test.ts',
    ],
  },
  {
    name: 'a notification that cannot be stored is acknowledged',
    file: 'providers/notifications.ts',
    original: 'const { deliveries, state } = await inbox.add(notification);',
    planted:
      "const { deliveries, state } = await inbox.add(notification).catch(() => ({ deliveries: 1, state: 'received' }));",
    tests: ['test/providers/provider-notifications.test.ts'],
  },
  {
    name: 'the Idempotency-Key of a call differs between attempts',
    file: 'activities/submit.ts',
    original: 'idempotencyKey: `${task.jobId}:${task.callIndex}`,',
    planted: 'idempotencyKey: `${task.jobId}:${performance.now()}`,',
    tests: ['test/journeys/transcribe.test.ts'],
  },
  {
    name: 'a call that may have been accepted is sent again',
    file: 'activities/submit.ts',
    original: "new Set(['unknown', 'failed'])",
    planted: "new Set(['failed'])",
    tests: ['test/activities/submit.test.ts', 'test/journeys/queued-failures.test.ts'],
  },
  {
    name: 'a paid call is sent again after its connection was reset',
    file: 'providers/provider-http.ts',
    original: "'ECONNREFUSED',\n",
    planted: "'ECONNREFUSED',\n  'ECONNRESET',\n",
    tests: ['test/journeys/audio-failures.test.ts'],
  },
  {
    name: 'the padding of a recording is charged',
    file: 'providers/call-results.ts',
    original: 'Math.ceil(seconds - paddingSeconds)',
    planted: 'Math.ceil(seconds)',
    tests: ['test/providers/partial-results.test.ts'],
  },
  {
    name: 'a job whose workflow is paused is released',
    file: 'studio/jobs/job-workflow.ts',
    original: " || status.name === 'PAUSED'",
    planted: '',
    tests: ['test/worker/sweeper.test.ts'],
  },
  {
    name: 'a call whose provider is unreachable counts as failed, so that its job is released',
    file: 'studio/jobs/status-checks.ts',
    original: "createFinding('unreachable'",
    planted: "createFinding('failed'",
    tests: ['test/journeys/operator-actions.test.ts'],
  },
  {
    name: 'an attempt that began before a redelivery ends it',
    file: 'webhooks/webhooks.ts',
    original: "w.state = 'delivering' AND w.attempts_before < ${number}",
    planted: "w.state = 'delivering'",
    tests: ['test/activities/deliver-webhook.test.ts'],
  },
  {
    name: 'a slow sender that still reports counts as crashed',
    file: 'activities/adopt.ts',
    original: 'if (record.updatedAtMs !== updatedAtMs) updateSeenAtMs',
    planted: 'if (updatedAtMs === 0) updateSeenAtMs',
    tests: ['test/activities/submit.test.ts'],
  },
  {
    name: 'an upload is removed when the database fails during its check',
    file: 'storage/uploads.ts',
    original: 'if (error instanceof GatewayError) await storage.remove(key);',
    planted: 'await storage.remove(key);',
    tests: ['test/api/file-uploads.test.ts'],
  },
  {
    name: 'a page of files loses files of the same time',
    file: 'storage/stored-files.ts',
    original: 'ORDER BY x.created_at DESC, x.storage_key DESC LIMIT',
    planted: 'ORDER BY x.created_at DESC LIMIT',
    tests: ['test/api/storage-files.test.ts'],
  },
];

const files: Fault[] = [
  {
    name: "quotes of a model's name end its XMP attribute",
    file: 'storage/credentials/content-credentials.ts',
    original: '/[<>&"]/g',
    planted: '/[<>&]/g',
    tests: ['test/storage/credentials.test.ts'],
  },
  {
    name: 'a mask is inverted',
    file: 'storage/inputs/call-pictures.ts',
    original: "extractChannel('alpha').negate()",
    planted: "extractChannel('alpha')",
    tests: ['test/providers/masks.slow.test.ts'],
  },
  {
    name: 'a mask is not turned by its orientation',
    file: 'storage/inputs/call-pictures.ts',
    original: '.autoOrient()\n    .resize(',
    planted: '.resize(',
    tests: ['test/providers/masks.slow.test.ts'],
  },
  {
    name: 'a photo is sent as it is stored',
    file: 'storage/inputs/call-pictures.ts',
    original: 'if (!picture?.isTurned) return value;',
    planted: 'if (!picture?.isAnimated) return value;',
    tests: ['test/providers/masks.slow.test.ts'],
  },
  {
    name: 'a download that was ended early is measured',
    file: 'storage/media-types.ts',
    original: "if (!signature) return use === 'recording' || readTagBytes(head) > 0;",
    planted: 'if (!signature) return false;',
    tests: ['test/journeys/whole-inputs.test.ts'],
  },
  {
    name: 'the first of several tracks is reserved',
    file: 'storage/media-thread.ts',
    original: 'tracks.map(measureTrack)',
    planted: 'tracks.slice(0, 1).map(measureTrack)',
    tests: ['test/storage/media-reading.test.ts'],
  },
  {
    name: 'more outputs than requested are kept',
    file: 'providers/call-results.ts',
    original: 'result.outputs.slice(0, requestedCount).map(',
    planted: 'result.outputs.map(',
    tests: ['test/providers/partial-results.test.ts'],
  },
  {
    name: 'a range has one byte more',
    file: 'api/http/stored-file.ts',
    original: '{ first: range.start, last: range.end }',
    planted: '{ first: Math.max(0, range.start - 1), last: range.end }',
    tests: ['test/api/storage-files.test.ts'],
  },
  {
    name: 'a part of another file is sent',
    file: 'api/http/stored-file.ts',
    original: "ifRange === '' || ifRange === etag",
    planted: "ifRange !== ' '",
    tests: ['test/api/storage-files.test.ts'],
  },
  {
    name: 'the TypeScript client sends its API key to the store',
    file: 'clients/typescript/client.ts',
    original: 'send: this.#connection.sendWithoutKey',
    planted: 'send: this.#connection.send',
    tests: ['test/clients/typescript.slow.test.ts'],
  },
  {
    name: 'a signed file is changed',
    file: 'storage/credentials/content-credentials.ts',
    original: "if (metadata.isSigned) return 'provider';",
    planted: "if (false) return 'provider';",
    tests: ['test/storage/content-credentials.slow.test.ts'],
  },
  {
    name: 'files that cannot be removed stop the sweep',
    file: 'storage/stored-files.ts',
    original: 'ORDER BY removal_tried_at NULLS FIRST LIMIT',
    planted: 'ORDER BY deleted_at LIMIT',
    tests: ['test/api/storage-files.test.ts'],
  },
  {
    name: 'a suspended organization uploads',
    file: 'api/endpoints/file-uploads.ts',
    original: 'if (upload.suspended)',
    planted: 'if (false)',
    tests: ['test/api/storage-files.test.ts'],
  },
];

const clients: Fault[] = [
  {
    name: 'a Retry-After of days is obeyed',
    file: 'providers/error-responses.ts',
    original: 'Math.min(Math.max(waitMs, 0), 3_600_000)',
    planted: 'Math.max(waitMs, 0)',
    tests: ['test/providers/error-responses.test.ts'],
  },
  {
    name: 'the Python client accepts webhooks from the future',
    file: 'clients/python/src/studio_gateway/_webhooks.py',
    original: 'abs(time.time() - int(timestamp))',
    planted: '(time.time() - int(timestamp))',
    tests: ['test/clients/python.slow.test.ts'],
  },
  {
    name: 'the TypeScript client accepts webhooks from the future',
    file: 'clients/typescript/webhooks.ts',
    original: 'Math.abs(ageSeconds)',
    planted: 'ageSeconds',
    tests: ['test/clients/typescript.slow.test.ts'],
  },
  {
    name: 'the usage chart loses its smallest series',
    file: 'clients/console/pages/usage/usage-sums.ts',
    original: 'series.slice(seriesMax - 1)',
    planted: 'series.slice(seriesMax)',
    tests: ['test/clients/console/account.slow.test.ts'],
  },
];

/** All known faults. */
export const faults: readonly Fault[] = [
  ...money,
  ...bulk,
  ...pipelines,
  ...chat,
  ...conversations,
  ...access,
  ...providers,
  ...files,
  ...clients,
];
