/** Shows the request of a form as code. */
import { useRef, useState } from 'react';
import { copyText, selectedMessage } from '../../parts/copy.ts';
import type { FormValues } from './capability.ts';

interface CopyAsProps {
  /** Path of the endpoint, e.g. `/api/v1/studio/image/generate`. */
  path: string;
  body: FormValues;
}

/** Time for which the button shows the result, in milliseconds. */
const labelMs = 3000;
const languages = ['curl', 'TypeScript', 'Python'] as const;
type Language = (typeof languages)[number];

/** Shows a request as code, with a choice of language and a copy button. */
export function CopyAsCode({ path, body }: CopyAsProps) {
  const [language, setLanguage] = useState<Language>('curl');
  const [label, setLabel] = useState('Copy');
  const shown = useRef<HTMLPreElement>(null);
  const text = writeCode[language](path, body);
  const copy = async (): Promise<void> => {
    setLabel((await copyText(text, shown.current)) ? 'Copied' : selectedMessage);
    setTimeout(setLabel, labelMs, 'Copy');
  };
  return (
    <details>
      <summary>Copy as code</summary>
      <div className="stack">
        <div className="tabs" role="group" aria-label="Language">
          {languages.map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === language}
              onClick={() => setLanguage(name)}
            >
              {name}
            </button>
          ))}
          <button type="button" onClick={() => void copy()}>
            {label}
          </button>
        </div>
        {/* oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard */}
        <pre className="code" tabIndex={0} ref={shown}>
          {text}
        </pre>
      </div>
    </details>
  );
}

const writeCode: Record<Language, (path: string, body: FormValues) => string> = {
  curl: (path, body) =>
    [
      `curl -s ${location.origin}${path} \\`,
      `  -H "Authorization: Bearer $STUDIO_API_KEY" -H 'Content-Type: application/json' \\`,
      `  -d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`,
    ].join('\n'),
  TypeScript: (path, body) =>
    [
      "import { StudioGateway } from 'studio-gateway-client';",
      '',
      `const client = new StudioGateway({ baseUrl: '${location.origin}', apiKey: process.env.STUDIO_API_KEY! });`,
      `const result = await client.${buildCallStart(path)}${JSON.stringify(body, null, 2)});`,
    ].join('\n'),
  Python: (path, body) =>
    [
      'from studio_gateway import StudioGateway',
      '',
      `client = StudioGateway(base_url="${location.origin}")  # reads STUDIO_API_KEY`,
      `result = client.${buildCallStart(path)}${formatPython(body)})`,
    ].join('\n'),
};

/** Returns the start of a call to the client, which is the same in TypeScript and Python. */
function buildCallStart(path: string): string {
  return path.includes('/studio/') ? `run('${path.replace(/^.*\/studio\//, '')}', ` : 'chat(';
}

/** Converts a value to a Python literal. */
function formatPython(value: unknown): string {
  const words: Record<string, string> = { true: 'True', false: 'False', null: 'None' };
  return JSON.stringify(value, null, 4).replaceAll(
    /"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g,
    (word) => words[word] ?? word,
  );
}
