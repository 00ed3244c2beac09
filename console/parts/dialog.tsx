/** Native dialogs that ask for a confirmation or show a secret. */
import { useMutation } from '@tanstack/react-query';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { Refusal } from './states.tsx';

interface DialogProps {
  title: string;
  /** Called when the dialog was closed, by a button or by Escape. */
  onClose: () => void;
  children: ReactNode;
}

// The dialog is open while it is rendered.
function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

interface AskProps extends DialogProps {
  /** Label of the button that confirms. */
  verb: string;
  isDangerous?: boolean;
  /** True if a required choice is missing. */
  isIncomplete?: boolean;
  /** Does the action. The dialog keeps its input and stays open until the action has succeeded. */
  act: () => Promise<unknown>;
}

/** Asks for a confirmation before an action. */
export function Ask({ title, verb, isDangerous, isIncomplete, act, onClose, children }: AskProps) {
  const { mutate, isPending, error } = useMutation({ mutationFn: act, onSuccess: onClose });
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          mutate();
        }}
      >
        {children}
        <Refusal error={error} />
        <div className="row">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            className={isDangerous ? 'danger' : 'primary'}
            disabled={isPending || isIncomplete}
          >
            {isPending ? 'Working…' : verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface SecretProps extends DialogProps {
  secret: string;
}

/** Shows a secret that is not shown again; Escape closes the dialog too. */
export function ShownOnce({ title, secret, onClose, children }: SecretProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="stack">
        {children}
        <Secret text={secret} />
        <div className="row">
          <button type="button" className="primary" onClick={onClose}>
            I have copied it
          </button>
        </div>
      </div>
    </Dialog>
  );
}

/** Shows a secret with a button that copies it. */
export function Secret({ text }: { text: string }) {
  const [message, setMessage] = useState('');
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => setMessage('Copied'),
      () => setMessage('The browser does not allow this. Select the text and copy it.'),
    );
  };
  return (
    <div className="secret">
      <code data-secret>{text}</code>
      <button type="button" onClick={copy}>
        Copy
      </button>
      <output>{message}</output>
    </div>
  );
}
