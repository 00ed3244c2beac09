/**
 * Ears for notifications of calls, inside one process: a call that was just submitted here may hear its
 * end here, before any round trip. What an ear takes is not told to the workflow, so an ear takes only
 * what nobody needs if this process dies: notifications of calls whose operation is on record, which the
 * workflow's own look finds again (docs/decisions/0007).
 */
import type { CallName } from './ledger/call-records.ts';

/** The ear of one call. */
export interface CallEar {
  /** The provider has answered the submit: offers wait until the operation is on record or `close`. */
  answered: () => void;
  /** The operation is on record: from now on offers are taken. */
  recorded: () => void;
  /** Whether a notification came before `waitMs` had passed; at once when it came earlier. */
  heard: (waitMs: number) => Promise<boolean>;
  /** Takes nothing any more. */
  close: () => void;
}

/** The ears of a process. */
export interface CallEars {
  /** From now on notifications may come to this process; without it nobody listens. */
  open: () => void;
  /** Null where no notification can be heard: waiting would be in vain. */
  listen: (call: CallName) => CallEar | null;
  /** Offers a verified notification; false when the workflow has to be told. */
  offer: (call: CallName) => Promise<boolean>;
}

interface Listening {
  told: boolean;
  stage: 'sent' | 'answered';
  wake: () => void;
  taken: PromiseWithResolvers<boolean>;
}

/** Makes the ears; all are closed until `open`. */
export function createCallEars(): CallEars {
  const listening = new Map<string, Listening>();
  let isOpen = false;
  return {
    open() {
      isOpen = true;
    },
    listen(call) {
      if (!isOpen) return null;
      const ear: Listening = {
        told: false,
        stage: 'sent',
        wake: () => {},
        taken: Promise.withResolvers<boolean>(),
      };
      listening.set(keyOf(call), ear);
      return {
        answered() {
          ear.stage = 'answered';
        },
        recorded: () => ear.taken.resolve(true),
        heard: (waitMs) => heard(ear, waitMs),
        close() {
          ear.taken.resolve(false);
          if (listening.get(keyOf(call)) === ear) listening.delete(keyOf(call));
        },
      };
    },
    async offer(call) {
      const ear = listening.get(keyOf(call));
      if (!ear) return false;
      ear.told = true;
      ear.wake();
      // A provider may hold its answer to the submit until this very notification is answered.
      return ear.stage === 'answered' ? ear.taken.promise : false;
    },
  };
}

async function heard(ear: Listening, waitMs: number): Promise<boolean> {
  if (!ear.told) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      ear.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
  return ear.told;
}

function keyOf({ jobId, callIndex }: CallName): string {
  return `${jobId}:${callIndex}`;
}
