/**
 * A budget of one organization, leased by this process: one reservation in the ledger from which chats
 * are paid without a round trip each. What has ended is booked, and what is held from then on is set,
 * in one move every few milliseconds. A chat that does not fit is reserved in the ledger by itself.
 *
 * Exact because `free` is never more than what the ledger holds for this lease, less the most that each
 * running chat may cost, less what ended chats did cost and the ledger has not confirmed yet.
 */
import { newId } from '../../domain/ids.ts';
import { recentCount, recentMaximum } from '../../domain/recent-demand.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ChatLedger, ChatReserve, ChatSettle, LeasedChat } from './chat-ledger.ts';
import type { RunningChat, RunningChats } from './running-chats.ts';

/** Where a chat is noted while it runs, and settled when it has ended. */
export type ChatFunds = Pick<RunningChats, 'add' | 'settle'>;

/** What leases work with. */
export interface LeaseParts {
  ledger: Pick<ChatLedger, 'lease'>;
  logger: Logger;
  /** A lease that is not heard of for so long is ended by the sweeper. */
  ttlMs: number;
  /** How often running chats are recorded. */
  checkpointMs: number;
}

/** A running chat's part of the lease. */
interface Hold {
  amountMicro: number;
  reserve: ChatReserve;
  chat: RunningChat;
}

/** An organization with fewer chats per second in this process is not worth a lease. */
const busyPerSecond = 8;
/** A lease from which nothing was taken for this long goes back. */
const idleMs = 1000;
const retryMs = 500;
/** A lease that somebody else needed, or that was too small, is not tried again for this long. */
const restMs = 2000;
/** What is held beyond what runs: so many times what one second took at once, or so many chats. */
const peaksAhead = 4;
const chatsAhead = 16;
const rowsMax = 500;

/** See the file's head. */
export class ChatLease {
  readonly #parts: LeaseParts;
  readonly #organizationId: string;
  readonly #running = new Set<Hold>();
  readonly #demand = recentCount();
  readonly #peak = recentMaximum();
  readonly #largest = recentMaximum();
  #ended: LeasedChat[] = [];
  #id = newId('lease');
  /** Micro-credits: what the ledger holds for us; the most that runs may cost; what ended did cost. */
  #held = 0;
  #promised = 0;
  #spent = 0;
  #open = false;
  #lost = false;
  #syncing = false;
  #wanting = false;
  #usedAtMs = performance.now();
  #syncedAtMs = 0;
  #checkpointedAtMs = 0;
  #restsUntilMs = 0;
  #retryAtMs = 0;

  constructor(parts: LeaseParts, organizationId: string) {
    this.#parts = parts;
    this.#organizationId = organizationId;
  }

  /** Whether this object can be forgotten: another one starts where it is needed. */
  get over(): boolean {
    if (this.#lost) return true;
    const idle = performance.now() - this.#usedAtMs > idleMs;
    return idle && !this.open;
  }

  /** Whether something is held, or not booked yet. */
  get open(): boolean {
    return this.#open || this.#syncing || this.#ended.length > 0;
  }

  /** Takes the most that a chat may cost; null when there is not that much. */
  take(reserve: ChatReserve): ChatFunds | null {
    const nowMs = performance.now();
    const amountMicro = reserve.amountMaxMicro;
    this.#usedAtMs = nowMs;
    this.#demand.note(1, nowMs);
    this.#largest.note(amountMicro, nowMs);
    this.#peak.note(this.#promised + this.#spent + amountMicro, nowMs);
    // Of a lease that the ledger has not confirmed for long, the sweeper may think that it is lost.
    const known = this.#open && nowMs - this.#syncedAtMs < this.#parts.ttlMs / 2;
    const free = this.#held - this.#promised - this.#spent;
    if (!known || free < amountMicro) {
      this.#wanting = true;
      return null;
    }
    if (free * 2 < this.#aheadMicro(nowMs)) this.#wanting = true;
    return this.#fundsOf(reserve);
  }

  /** Gives back what no running chat needs, and leases nothing for a while. */
  recall(): void {
    if (!this.#open) return;
    this.#rest();
    this.tick();
  }

  /** Does what is due; called every few milliseconds. `closing`: nothing more is taken. */
  tick(closing = false): void {
    const nowMs = performance.now();
    if (this.#syncing || this.#lost || nowMs < this.#retryAtMs) return;
    const unused = this.#promised === 0 && (closing || nowMs - this.#usedAtMs > idleMs);
    if (this.#open && unused) void this.#sync(0);
    else if (this.#ended.length > 0 || this.#isDue(nowMs)) {
      void this.#sync(this.#promised + this.#aheadMicro(nowMs));
    }
  }

  #isDue(nowMs: number): boolean {
    if (this.#open && nowMs - this.#syncedAtMs > this.#parts.checkpointMs) return true;
    if (nowMs < this.#restsUntilMs) return this.#open && this.#held > this.#promised + this.#spent;
    if (this.#aheadMicro(nowMs) === 0) return false;
    return this.#wanting && this.#demand.value(nowMs) >= busyPerSecond;
  }

  #aheadMicro(nowMs: number): number {
    if (nowMs < this.#restsUntilMs) return 0;
    return Math.max(this.#peak.value(nowMs) * peaksAhead, this.#largest.value(nowMs) * chatsAhead);
  }

  #rest(): void {
    this.#restsUntilMs = performance.now() + restMs;
  }

  #fundsOf(reserve: ChatReserve): ChatFunds {
    let hold: Hold | null = null;
    return {
      add: (chat) => {
        hold = { amountMicro: reserve.amountMaxMicro, reserve, chat };
        this.#running.add(hold);
        this.#promised += hold.amountMicro;
      },
      settle: (_chat, settle) => {
        if (!hold) return;
        this.#running.delete(hold);
        this.#end(hold, settle);
      },
    };
  }

  #end({ amountMicro, reserve, chat }: Hold, settle: ChatSettle): void {
    const { to, reason, inputTokens, outputTokens, countedBy, served } = settle;
    this.#promised -= amountMicro;
    this.#spent += settle.amountMicro;
    const row: LeasedChat = {
      ...rowOf(reserve, chat),
      ...served,
      state: to,
      amount: settle.amountMicro,
      reason,
      input: inputTokens,
      output: outputTokens,
      countedBy,
    };
    if (this.#lost) this.#tellLost([row]);
    else this.#ended.push(row);
  }

  async #sync(holdMicro: number): Promise<void> {
    this.#syncing = true;
    this.#wanting = false;
    const sentAtMs = performance.now();
    const booked = this.#ended.splice(0, rowsMax);
    const bookedMicro = booked.reduce((sum, { amount }) => sum + amount, 0);
    // What is booked later must be held until then.
    const held = holdMicro + this.#spent - bookedMicro;
    // While this is on its way, no more is used than is held afterwards in any case.
    this.#held = Math.min(this.#held, held + bookedMicro);
    try {
      const answer = await this.#parts.ledger.lease({
        organizationId: this.#organizationId,
        id: this.#id,
        holdMicro: held,
        ttlMs: this.#parts.ttlMs,
        chats: [...booked, ...this.#checkpoints(sentAtMs)],
      });
      this.#spent -= bookedMicro;
      this.#syncedAtMs = sentAtMs;
      if (answer.verdict !== 'held') this.#tellLost(booked);
      else if (answer.held > 0) this.#holds(answer.held, held);
      else this.#closed(held > 0);
    } catch (error) {
      // Perhaps it was done all the same: the same rows again change nothing then.
      this.#ended = [...booked, ...this.#ended];
      this.#retryAtMs = performance.now() + retryMs;
      this.#parts.logger.warn({ error, leaseId: this.#id }, 'chat.lease_sync_failed');
    }
    this.#syncing = false;
  }

  #holds(heldMicro: number, askedMicro: number): void {
    this.#open = true;
    this.#held = heldMicro;
    const free = heldMicro - this.#promised - this.#spent;
    const largest = this.#largest.value(performance.now());
    // The balance allows too little for the chats of this organization: it is better off without.
    if (heldMicro < askedMicro && free < largest) this.#rest();
  }

  #closed(refused: boolean): void {
    this.#open = false;
    this.#held = 0;
    this.#id = newId('lease');
    if (refused) this.#rest();
  }

  /** The sweeper ended the lease: what its chats cost beyond their checkpoints is our loss. */
  #tellLost(chats: readonly LeasedChat[]): void {
    this.#lost = true;
    this.#open = false;
    for (const { id, amount } of chats) {
      this.#parts.logger.error({ chatId: id, leaseId: this.#id, amount }, 'chat.lease_lost');
    }
  }

  #checkpoints(nowMs: number): LeasedChat[] {
    const { checkpointMs } = this.#parts;
    if (nowMs - this.#checkpointedAtMs < checkpointMs) return [];
    this.#checkpointedAtMs = nowMs;
    return [...this.#running]
      .filter(({ chat }) => nowMs - chat.startedAtMs >= checkpointMs)
      .map(({ reserve, chat }) => {
        const { inputTokens, outputTokens, amountMicro, served } = chat.progress();
        return {
          ...rowOf(reserve, chat),
          ...served,
          state: 'reserved',
          amount: amountMicro,
          reason: null,
          input: inputTokens,
          output: outputTokens,
          countedBy: null,
        };
      });
  }
}

function rowOf({ id, chat: facts }: ChatReserve, chat: RunningChat) {
  return { id, ...facts, ageMs: Math.max(0, performance.now() - chat.startedAtMs) };
}
