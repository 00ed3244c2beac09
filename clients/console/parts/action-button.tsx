/** Button that is disabled if its action is not allowed, with the reason as its tooltip. */
import type { ComponentProps } from 'react';

interface ActionButtonProps extends ComponentProps<'button'> {
  /** Reason why the action is not allowed, or null if it is allowed. */
  disabledReason?: string | null;
}

/** Shows a button, which is disabled if there is a `disabledReason`. */
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
