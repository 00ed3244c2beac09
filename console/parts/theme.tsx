/** The color theme of the console: of the system, light or dark. It is kept in the browser. */
import { useState } from 'react';

const place = 'theme';
const themes = [
  ['system', 'Theme: auto'],
  ['light', 'Theme: light'],
  ['dark', 'Theme: dark'],
] as const;

/** Applies the theme that the browser keeps. */
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
