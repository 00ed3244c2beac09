/** Shows the request of a form as code. */
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { copyText, selectedMessage } from '../../parts/copy.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { TabButtons, toOptions } from '../../parts/fields.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import { jobQuery, timelineQuery, toEndpoint, toRepeatable } from '../job/job-query.ts';
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

/** Shows a request as code, folded until it is opened. */
export function CopyAsCode(props: CopyAsProps) {
  return (
    <details>
      <summary>Copy as code</summary>
      <Code {...props} />
    </details>
  );
}

/** Shows the request of a job as code in a dialog. */
export function CodeDialog({ jobId, onClose }: { jobId: string; onClose: () => void }) {
  const { data: job, error } = useQuery(jobQuery(jobId));
  const { data } = useQuery(timelineQuery(jobId));
  return (
    <Dialog title="Copy as code" onClose={onClose}>
      <ErrorMessage error={error} />
      {job && data ? (
        <Code path={toEndpoint(job.type)} body={toRepeatable(data.request)} />
      ) : (
        !error && <Loading />
      )}
      <div className="row">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

/** Shows a request as code, with a choice of language and a copy button. */
function Code({ path, body }: CopyAsProps) {
  const [language, setLanguage] = useState<Language>('curl');
  const [label, setLabel] = useState('Copy');
  const shown = useRef<HTMLPreElement>(null);
  const text = writeCode[language](path, body);
  const copy = async (): Promise<void> => {
    setLabel((await copyText(text, shown.current)) ? 'Copied' : selectedMessage);
    setTimeout(setLabel, labelMs, 'Copy');
  };
  return (
    <div className="stack">
      <div className="row">
        <TabButtons
          label="Language"
          options={toOptions(languages)}
          value={language}
          change={setLanguage}
        />
        <button type="button" onClick={() => void copy()}>
          {label}
        </button>
      </div>
      {/* oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard */}
      <pre className="code" tabIndex={0} ref={shown}>
        {text}
      </pre>
    </div>
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
