/** Menu of actions, loaded when it is opened first. */
import * as Ariakit from '@ariakit/react';
import { useEffect } from 'react';
import type { MenuProps } from './menu.tsx';

/** Shows the open menu and its button. */
export default function OpenMenu({ label, actions, children, className }: MenuProps) {
  const menu = Ariakit.useMenuStore({ placement: 'bottom-end' });
  useEffect(() => {
    menu.setInitialFocus('first');
    menu.setAutoFocusOnShow(true);
    menu.show();
  }, [menu]);
  return (
    <Ariakit.MenuProvider store={menu}>
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
