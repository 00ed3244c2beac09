/** Button that opens a menu of actions. */
import * as Ariakit from '@ariakit/react';
import type { ReactNode } from 'react';

/** Entry of a menu. */
export interface MenuAction {
  label: string;
  icon?: ReactNode;
  /** One sentence that says what the action does. */
  hint?: string;
  isDangerous?: boolean;
  /** Reason why the action is not allowed, or null if it is allowed. */
  disabledReason?: string | null;
  perform: () => void;
}

interface MenuProps {
  /** Name of the button for screen readers. */
  label: string;
  actions: readonly MenuAction[];
  /** Content of the button. Defaults to its label. */
  children?: ReactNode;
  className?: string;
}

/** Shows a button that opens a menu. */
export function ActionMenu({ label, actions, children, className }: MenuProps) {
  return (
    <Ariakit.MenuProvider placement="bottom-end">
      <Ariakit.MenuButton className={className} aria-label={label}>
        {children ?? label}
      </Ariakit.MenuButton>
      <Ariakit.Menu className="popup" gutter={4} fixed>
        {actions.map(({ label: name, icon, hint, isDangerous, disabledReason = null, perform }) => (
          <Ariakit.MenuItem
            key={name}
            className={isDangerous ? 'item danger' : 'item'}
            disabled={disabledReason !== null}
            onClick={perform}
          >
            {icon}
            <span>
              {name}
              {(disabledReason ?? hint) && (
                <span className="hint block">{disabledReason ?? hint}</span>
              )}
            </span>
          </Ariakit.MenuItem>
        ))}
      </Ariakit.Menu>
    </Ariakit.MenuProvider>
  );
}
