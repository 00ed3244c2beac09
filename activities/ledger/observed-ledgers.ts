/** The ledgers, with their moves counted and traced. */
import { creditsFromMicro } from '../../domain/credits.ts';
import type { OpenSpan, Telemetry, Tracing } from '../../platform/telemetry.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { ChatLedger } from '../chat/chat-ledger.ts';
import type { Ledger } from './ledger.ts';
import type { Settlements } from './settlements.ts';

/** With what moves are observed. */
interface Observers extends Pick<Telemetry, 'metrics' | 'tracing'> {
  settlements: Settlements;
}

interface Verdict {
  verdict: string;
}

/** Runs a move in a span that tells its verdict. */
function moved<Answer extends Verdict>(
  tracing: Tracing,
  name: string,
  move: () => Promise<Answer>,
): Promise<Answer> {
  return tracing.inSpan({ name, kind: 'client' }, async (span: OpenSpan) => {
    const answer = await move();
    span.set({ 'ledger.verdict': answer.verdict });
    return answer;
  });
}

/** A settlement is told of once it is made. */
async function settled<Answer extends Verdict>(
  { tracing, settlements }: Observers,
  id: string,
  settle: () => Promise<Answer>,
): Promise<Answer> {
  const answer = await moved(tracing, 'ledger.settle', settle);
  if (answer.verdict === 'settled') settlements.note(id);
  return answer;
}

function countReserve(
  metrics: Metrics,
  kind: string,
  { verdict, amountMicro }: Verdict & { amountMicro: number },
): void {
  if (verdict === 'reserved') metrics.creditsReserved.inc({ kind }, creditsFromMicro(amountMicro));
  else metrics.reservationsRefused.inc({ kind, verdict });
}

/** Observes the ledger of Studio. */
export function observeLedger(ledger: Ledger, observers: Observers): Ledger {
  const { metrics, tracing } = observers;
  return {
    ...ledger,
    async refusalOf(plan) {
      const refusal = await ledger.refusalOf(plan);
      if (refusal) metrics.reservationsRefused.inc({ kind: 'studio', verdict: refusal.verdict });
      return refusal;
    },
    async reserve(reserve) {
      const answer = await moved(tracing, 'ledger.reserve', () => ledger.reserve(reserve));
      const { kind, amountMicro } = reserve;
      const repeated = answer.verdict === 'reserved' && answer.repeated;
      if (!repeated) countReserve(metrics, kind, { verdict: answer.verdict, amountMicro });
      return answer;
    },
    settle: (settle) => settled(observers, settle.id, () => ledger.settle(settle)),
  };
}

/** Observes the ledger of chat. */
export function observeChatLedger(ledger: ChatLedger, observers: Observers): ChatLedger {
  const { metrics, tracing, settlements } = observers;
  return {
    ...ledger,
    async reserve(reserve) {
      const answer = await moved(tracing, 'ledger.reserve', () => ledger.reserve(reserve));
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
