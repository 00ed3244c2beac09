/** Color theme of the console: system, light or dark. The choice is stored in the browser. */
import { useState } from 'react';

const storageKey = 'theme';
const themes = [
  ['system', 'Auto theme'],
  ['light', 'Light theme'],
  ['dark', 'Dark theme'],
] as const;

/** Applies the stored theme. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = localStorage.getItem(storageKey) ?? 'system';
}

/** Shows a field that selects the theme. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(() => localStorage.getItem(storageKey) ?? 'system');
  const choose = (next: string): void => {
    localStorage.setItem(storageKey, next);
    setTheme(next);
    applyTheme();
  };
  return (
    <select
      className="theme"
      aria-label="Theme"
      value={theme}
      onChange={({ target }) => choose(target.value)}
    >
      {themes.map(([id, text]) => (
        <option key={id} value={id}>
          {text}
        </option>
      ))}
    </select>
  );
}
