/** Keys of lists: j and k move between the rows, / goes to the search field. */
import { useEffect } from 'react';

/** Moves the focus between the links with `data-job`, and to the search field. */
export function useListKeys(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const { key, target, ctrlKey, metaKey, altKey } = event;
      if (ctrlKey || metaKey || altKey || !(target instanceof HTMLElement)) return;
      if (target.matches('input, select, textarea, dialog *')) return;
      if (key === '/') document.querySelector<HTMLElement>('input[type=search]')?.focus();
      else if (key === 'j' || key === 'k') {
        const rows = [...document.querySelectorAll<HTMLElement>('a[data-job]')];
        const index = rows.findIndex((row) => row === document.activeElement);
        rows[Math.max(0, index + (key === 'j' ? 1 : -1))]?.focus();
      } else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}
