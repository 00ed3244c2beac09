/** Metrics and traces of chat: its ledger and its upstreams. */
import { countReserve, moved, settled, type Observers } from '../ledger/observed-ledgers.ts';
import { createObserve } from '../providers/observed-providers.ts';
import type { ChatLedger } from './chat-ledger.ts';
import type { Upstreams } from './upstreams.ts';

/** Observes the ledger of chat. */
export function observeChatLedger(ledger: ChatLedger, observers: Observers): ChatLedger {
  const { metrics, settlements } = observers;
  return {
    ...ledger,
    async reserve(reserve) {
      const answer = await moved('ledger.reserve', () => ledger.reserve(reserve));
      const amountMicro = answer.verdict === 'reserved' ? answer.amount : 0;
      countReserve(metrics, 'chat', { verdict: answer.verdict, amountMicro });
      return answer;
    },
    settle: (settle) => settled(observers, settle.id, () => ledger.settle(settle)),
    async sweep(terms) {
      const swept = await ledger.sweep(terms);
      for (const { id } of swept) settlements.note(id);
      return swept;
    },
  };
}

const ok = () => 'ok' as const;

/** Observes the upstreams of chat. The duration of a stream ends with its response headers. */
export function observeUpstreams(
  upstreams: Upstreams,
  observers: Pick<Observers, 'metrics'>,
): Upstreams {
  const observe = createObserve(observers);
  return {
    ...upstreams,
    of(model) {
      const upstream = upstreams.of(model);
      const what = { provider: model.provider, verb: 'chat' } as const;
      return {
        ...upstream,
        stream: (body, signal) => observe(what, () => upstream.stream(body, signal), ok),
        whole: (body, signal) => observe(what, () => upstream.whole(body, signal), ok),
      };
    },
  };
}
