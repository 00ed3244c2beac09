/** Native dialogs that ask for a confirmation or show a secret. */
import { useMutation } from '@tanstack/react-query';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { Refusal } from './states.tsx';

interface DialogProps {
  title: string;
  /** It was closed, by a button or by Escape. */
  onClose: () => void;
  children: ReactNode;
}

// Open as long as it is there.
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
  /** On the button that does it. */
  verb: string;
  isDangerous?: boolean;
  /** Why it cannot be done as it stands. */
  isIncomplete?: boolean;
  /** What is done. The dialog stays open, with what was typed, until it has succeeded. */
  act: () => Promise<unknown>;
}

/** Asks before something is done. */
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

/** Shows what is shown once; Escape closes it too. */
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

/** A secret with a button that copies it. */
export function Secret({ text }: { text: string }) {
  const [told, setTold] = useState('');
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => setTold('Copied'),
      () => setTold('Your browser does not allow it: select the text and copy it.'),
    );
  };
  return (
    <div className="secret">
      <code data-secret>{text}</code>
      <button type="button" onClick={copy}>
        Copy
      </button>
      <output>{told}</output>
    </div>
  );
}
