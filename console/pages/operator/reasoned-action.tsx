/** Something an operator does: a button that asks first, and wants a reason, which is written down. */
import { useState, type ReactNode } from 'react';
import { useOperatorRefresh } from '../../gateway/operator.ts';
import { Ask } from '../../parts/dialog.tsx';

interface ReasonedActionProps {
  /** On the button, and on that of the dialog. */
  verb: string;
  title: string;
  /** Why it cannot be done; null: it can. */
  refusal?: string | null;
  isDangerous?: boolean;
  /** Given why. */
  act: (reason: string) => Promise<unknown>;
  /** What will happen, and further fields. */
  children: ReactNode;
}

/** Asks for a reason before an action. */
export function ReasonedAction({
  verb,
  title,
  refusal = null,
  isDangerous,
  act,
  children,
}: ReasonedActionProps) {
  const [isAsking, setAsking] = useState(false);
  const [reason, setReason] = useState('');
  const refresh = useOperatorRefresh();
  const done = async (): Promise<void> => {
    try {
      await act(reason.trim());
      setReason('');
    } finally {
      // What was refused may have changed something, too.
      await refresh();
    }
  };
  return (
    <>
      <button
        type="button"
        className={isDangerous ? 'danger' : undefined}
        disabled={refusal !== null}
        title={refusal ?? undefined}
        onClick={() => setAsking(true)}
      >
        {verb}
      </button>
      {isAsking && (
        <Ask
          title={title}
          verb={verb}
          isDangerous={isDangerous === true}
          isIncomplete={reason.trim() === ''}
          act={done}
          onClose={() => setAsking(false)}
        >
          {children}
          <label>
            <span>
              Reason <span className="hint">written down with your name</span>
            </span>
            <input
              required
              maxLength={500}
              value={reason}
              onChange={({ target }) => setReason(target.value)}
            />
          </label>
        </Ask>
      )}
    </>
  );
}
