/** Button for an operator's action. A dialog asks for the reason, which is recorded. */
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { requestJson } from '../../gateway/client.ts';
import {
  ConfirmButton,
  FormDialog,
  type FieldReader,
  type RequestKeys,
} from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';
import { showToast } from '../../parts/toast.tsx';

interface OperatorActionProps<Response> {
  /** Label of the confirm button in the dialog, and of the button. */
  verb: string;
  /** Label of the button if it is not `verb`. */
  label?: string;
  title: string;
  /** Reason why the action is not possible, or null if it is possible. */
  disabledReason?: string | null;
  isDangerous?: boolean;
  /** Path of the request below /api/admin/v1. */
  path: string;
  /** Defaults to `POST`. */
  method?: 'POST' | 'PUT';
  /** Returns further fields of the request body, besides the reason. */
  body?: (read: FieldReader) => object;
  /** Receives the response body of the successful request. */
  onDone?: (response: Response) => void;
  /** Description of the action's effect, and further form fields. */
  children: ReactNode;
}

/** Returns the function that sends the request, reloads all operator data, and shows a message. */
function usePerform<Response>({
  path,
  method = 'POST',
  body,
  onDone,
  verb,
}: OperatorActionProps<Response>) {
  const client = useQueryClient();
  return async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const request = { ...body?.(read), reason: read('reason') };
    try {
      const response = await requestJson<Response>(`/api/admin/v1${path}`, {
        method,
        body: request,
        idempotencyKey: keyOf(request),
      });
      onDone?.(response);
      showToast(`${verb}: done and recorded`);
    } finally {
      // The data is reloaded after an error too, because a failed action may have changed it.
      await client.invalidateQueries({ queryKey: ['operator'] });
    }
  };
}

/** Shows the action's button. */
export function OperatorAction<Response>(props: OperatorActionProps<Response>) {
  const { path: _, body: __, onDone: ___, method: ____, children, ...button } = props;
  return (
    <ConfirmButton {...button} perform={usePerform(props)}>
      {children}
      <ReasonField />
    </ConfirmButton>
  );
}

/** Shows the dialog of an action, as long as it is rendered. */
export function OperatorDialog<Response>({
  onClose,
  ...props
}: OperatorActionProps<Response> & { onClose: () => void }) {
  const { verb, title, isDangerous, children } = props;
  return (
    <FormDialog {...{ verb, title, isDangerous, onClose }} perform={usePerform(props)}>
      {children}
      <ReasonField />
    </FormDialog>
  );
}

function ReasonField() {
  return (
    <TextField
      label="Reason"
      hint="recorded with your name"
      name="reason"
      required
      maxLength={500}
    />
  );
}
