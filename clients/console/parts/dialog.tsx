/** Dialogs: a form that confirms an action, and a secret that is shown only once. */
import { useMutation } from '@tanstack/react-query';
import { useEffect, useId, useRef, useState, type ReactNode, type SubmitEvent } from 'react';
import { newRequestKey } from '../gateway/client.ts';
import { ActionButton } from './action-button.tsx';
import { useCloseOnNavigation } from './close-on-navigation.ts';
import { copyText, selectedMessage } from './copy.ts';
import { ErrorMessage } from './states.tsx';
import { showToast } from './toast.tsx';

interface DialogProps {
  title: string;
  /** Called when the dialog closes: by a button, by Escape, or because a page is opened. */
  onClose: () => void;
  children: ReactNode;
}

/** Shows a dialog, which is open as long as it is rendered. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  useCloseOnNavigation(onClose);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/** Returns the trimmed text of a form field by its name, or '' if there is no such field. */
export type FieldReader = (name: string) => string;

/** Returns an Idempotency-Key that stays the same while the dialog is open and the body is the same. */
export type RequestKeys = (body: object) => string;

interface FormDialogProps extends DialogProps {
  /** Label of the confirm button. */
  verb: string;
  isDangerous?: boolean | undefined;
  /** Message after the action. */
  done?: string;
  /** True if a required choice is missing that the browser's form validation does not check. */
  isIncomplete?: boolean;
  /** Performs the action. If it fails, the dialog stays open and keeps the user's input. */
  perform: (read: FieldReader, keyOf: RequestKeys) => Promise<unknown>;
}

/** Shows fields and a confirm button, which is enabled once all required fields are filled. */
export function FormDialog(props: FormDialogProps) {
  const { title, verb, isDangerous, done, isIncomplete, perform, onClose, children } = props;
  const form = useRef<HTMLFormElement>(null);
  const [isValid, setValid] = useState(false);
  const last = useRef({ content: '', key: '' });
  const keyOf: RequestKeys = (body) => {
    const content = JSON.stringify(body);
    if (last.current.content !== content) last.current = { content, key: newRequestKey() };
    return last.current.key;
  };
  const { mutate, isPending, error } = useMutation({
    mutationFn: (read: FieldReader) => perform(read, keyOf),
    onSuccess() {
      onClose();
      if (done !== undefined) showToast(done);
    },
  });
  const validate = (): void => setValid(form.current?.checkValidity() ?? false);
  useEffect(validate, []);
  const submit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const values = new FormData(event.currentTarget);
    mutate((name) => {
      const value = values.get(name);
      return typeof value === 'string' ? value.trim() : '';
    });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form ref={form} onInput={validate} onSubmit={submit}>
        {children}
        <ErrorMessage error={error} />
        <div className="row">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            className={isDangerous ? 'danger' : 'primary'}
            disabled={isPending || isIncomplete || !isValid}
          >
            {isPending ? 'Working…' : verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface ConfirmButtonProps extends Omit<FormDialogProps, 'onClose'> {
  className?: string | undefined;
  /** Label of the button that opens the dialog. Defaults to `verb`. */
  label?: string;
  disabledReason?: string | null;
}

/** Shows a button that opens a dialog with a form. */
export function ConfirmButton(props: ConfirmButtonProps) {
  const { label, className, disabledReason = null, ...dialog } = props;
  const [isOpen, setOpen] = useState(false);
  const shown = label ?? dialog.verb;
  return (
    <>
      <ActionButton
        className={dialog.isDangerous ? 'danger' : className}
        disabledReason={disabledReason}
        // The title names what the action changes: lists have one such button in each row.
        aria-label={dialog.title.startsWith(shown) ? dialog.title : undefined}
        onClick={() => setOpen(true)}
      >
        {shown}
      </ActionButton>
      {isOpen && <FormDialog {...dialog} onClose={() => setOpen(false)} />}
    </>
  );
}

interface NewSecretProps {
  title: string;
  /** Secret to show, or null to show no dialog. */
  secret: string | null;
  onClose: () => void;
}

/** Shows a new secret in a dialog. It cannot be shown again. */
export function NewSecret({ title, secret, onClose }: NewSecretProps) {
  if (secret === null) return null;
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="stack">
        <p>Copy it now. It will not be shown again.</p>
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
  const shown = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    setMessage((await copyText(text, shown.current)) ? 'Copied' : selectedMessage);
  };
  return (
    <div className="secret">
      <code data-secret ref={shown}>
        {text}
      </code>
      <button type="button" onClick={() => void copy()}>
        Copy
      </button>
      <output>{message}</output>
    </div>
  );
}
