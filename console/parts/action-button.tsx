/** Button that is disabled if its action is not allowed, with the reason as its tooltip. */
import type { ComponentProps } from 'react';

interface ActionButtonProps extends ComponentProps<'button'> {
  /** Why the action is not allowed, or null if it is allowed. */
  disabledReason?: string | null;
}

/** Shows a button that may be disabled for a reason. */
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
