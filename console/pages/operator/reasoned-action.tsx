/** A button for an action of an operator, which requires a reason that is recorded. */
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { requestJson } from '../../gateway/client.ts';
import { ConfirmButton, type FieldReader } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';

interface ReasonedActionProps<Answer> {
  /** Label of the button, and of the button of the dialog. */
  verb: string;
  title: string;
  /** Reason why the action is not possible; null if it is. */
  disabledReason?: string | null;
  isDangerous?: boolean;
  /** Path of the POST request below the operators' API. */
  path: string;
  /** Returns the fields of the request body in addition to the reason. */
  body?: (read: FieldReader) => object;
  /** Receives the response body of the successful request. */
  onDone?: (answer: Answer) => void;
  /** Description of the effect, and further fields. */
  children: ReactNode;
}

/** Asks for a reason, sends the request, and reads all data of operators again. */
export function ReasonedAction<Answer>(props: ReasonedActionProps<Answer>) {
  const { path, body, onDone, children, ...button } = props;
  const client = useQueryClient();
  const act = async (read: FieldReader): Promise<void> => {
    try {
      const answer = await requestJson<Answer>(`/api/admin/v1${path}`, {
        method: 'POST',
        body: { ...body?.(read), reason: read('reason') },
      });
      onDone?.(answer);
    } finally {
      // Read again after an error too, because a rejected action may have changed data.
      await client.invalidateQueries({ queryKey: ['operator'] });
    }
  };
  return (
    <ConfirmButton {...button} act={act}>
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
