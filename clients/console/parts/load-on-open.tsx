/** Loads the code of a popup when its button is about to be used, so that the first page is small. */
import {
  Suspense,
  createElement,
  useState,
  type ComponentType,
  type KeyboardEvent,
  type ReactNode,
} from 'react';
import { lazyPage } from './lazy-page.tsx';

/** Event handlers of the button that opens a popup. */
interface Opening {
  onFocus: () => void;
  onPointerEnter: () => void;
  onClick: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

/** Returns a component that shows a button, and after its first click the popup, which replaces it. */
export function loadOnOpen<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
  renderButton: (props: Props & { opening: Opening }) => ReactNode,
): ComponentType<Props> {
  const Popup = lazyPage(load);
  // A failure is reported when the popup is opened.
  const preload = (): void => void load().catch(() => null);
  return function LoadedOnOpen(props: Props) {
    const [isOpened, setOpened] = useState(false);
    const open = (): void => setOpened(true);
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.key !== 'ArrowDown') return;
      event.preventDefault();
      open();
    };
    const opening = { onFocus: preload, onPointerEnter: preload, onClick: open, onKeyDown };
    const button = renderButton({ ...props, opening });
    if (!isOpened) return button;
    return <Suspense fallback={button}>{createElement(Popup, props)}</Suspense>;
  };
}
