/** A button that is disabled, with the reason as tooltip, if its action is not allowed. */
import type { ComponentProps } from 'react';

interface ActionButtonProps extends ComponentProps<'button'> {
  /** Reason why the action is not allowed; null if it is allowed. */
  disabledReason?: string | null;
}

/** Shows the button. */
export function ActionButton({ disabledReason = null, disabled, ...button }: ActionButtonProps) {
  return (
    <button
      type="button"
      title={disabledReason ?? undefined}
      {...button}
      disabled={disabled || disabledReason !== null}
    />
  );
}
