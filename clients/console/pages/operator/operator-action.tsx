/** Button for an operator's action. A dialog asks for the reason, which is recorded. */
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { requestJson } from '../../gateway/client.ts';
import { ConfirmButton, type FieldReader, type RequestKeys } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';

interface OperatorActionProps<Response> {
  /** Label of the button, and of the confirm button in the dialog. */
  verb: string;
  title: string;
  /** Reason why the action is not possible, or null if it is possible. */
  disabledReason?: string | null;
  isDangerous?: boolean;
  /** Path of the POST request below /api/admin/v1. */
  path: string;
  /** Returns further fields of the request body, besides the reason. */
  body?: (read: FieldReader) => object;
  /** Receives the response body of the successful request. */
  onDone?: (response: Response) => void;
  /** Description of the action's effect, and further form fields. */
  children: ReactNode;
}

/** Shows the action's button, sends its request, and reloads all operator data. */
export function OperatorAction<Response>(props: OperatorActionProps<Response>) {
  const { path, body, onDone, children, ...button } = props;
  const client = useQueryClient();
  const perform = async (read: FieldReader, keyOf: RequestKeys): Promise<void> => {
    const request = { ...body?.(read), reason: read('reason') };
    try {
      const response = await requestJson<Response>(`/api/admin/v1${path}`, {
        method: 'POST',
        body: request,
        idempotencyKey: keyOf(request),
      });
      onDone?.(response);
    } finally {
      // The data is reloaded after an error too, because a failed action may have changed it.
      await client.invalidateQueries({ queryKey: ['operator'] });
    }
  };
  return (
    <ConfirmButton {...button} perform={perform}>
      {children}
      <TextField
        label="Reason"
        hint="recorded with your name"
        name="reason"
        required
        maxLength={500}
      />
    </ConfirmButton>
  );
}
