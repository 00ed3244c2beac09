/** Button that opens a menu of actions. */
import type { ReactNode } from 'react';
import { loadOnOpen } from './load-on-open.tsx';

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

/** Properties of a menu with its button. */
export interface MenuProps {
  /** Name of the button for screen readers. */
  label: string;
  actions: readonly MenuAction[];
  /** Content of the button. Defaults to its label. */
  children?: ReactNode;
  className?: string;
}

/** Shows a button that opens a menu. */
export const ActionMenu = loadOnOpen<MenuProps>(
  () => import('./menu-items.tsx'),
  ({ label, children, className, opening }) => (
    <button
      type="button"
      aria-haspopup="menu"
      aria-label={label}
      className={className}
      {...opening}
    >
      {children ?? label}
    </button>
  ),
);
