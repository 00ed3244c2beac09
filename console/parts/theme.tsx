/** Color theme of the console: system, light or dark. The browser stores the choice. */
import { useState } from 'react';

const place = 'theme';
const themes = [
  ['system', 'Theme: auto'],
  ['light', 'Theme: light'],
  ['dark', 'Theme: dark'],
] as const;

/** Applies the stored theme. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = localStorage.getItem(place) ?? 'system';
}

/** Lets the user choose a theme. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(() => localStorage.getItem(place) ?? 'system');
  const choose = (next: string): void => {
    localStorage.setItem(place, next);
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
