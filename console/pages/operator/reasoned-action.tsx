/** A button for an action of an operator, which requires a reason that is recorded. */
import { useState, type ReactNode } from 'react';
import { useOperatorRefresh } from '../../gateway/operator.ts';
import { Ask } from '../../parts/dialog.tsx';

interface ReasonedActionProps {
  /** Label of the button, and of the button of the dialog. */
  verb: string;
  title: string;
  /** Reason why the action is not possible; null if it is. */
  refusal?: string | null;
  isDangerous?: boolean;
  /** Does the action with the reason. */
  act: (reason: string) => Promise<unknown>;
  /** Description of the effect, and further fields. */
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
      // Read again after an error too, because a rejected action may have changed data.
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
              Reason <span className="hint">recorded with your name</span>
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
