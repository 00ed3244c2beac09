/** Links to the operators' pages of jobs and organizations. */
import { Link } from 'wouter';
import { IdTail } from '../../parts/ids.tsx';
import { formatType } from '../../parts/names.ts';

/** Shows a link to the page of a job. Its text is the prompt, or the end of the id. */
export function JobLink({ id, prompt = null }: { id: string; prompt?: string | null }) {
  return (
    <Link href={`/operator/jobs/${id}`} className="two-lines" title={prompt ?? id}>
      {prompt ?? <IdTail id={id} />}
    </Link>
  );
}

/** Shows a link to the page of an organization. Its text is the name, or the end of the id. */
export function OrganizationLink({ id, name }: { id: string; name?: string }) {
  return (
    <Link href={`/operator/organizations/${id}`} title={id}>
      {name ?? <IdTail id={id} />}
    </Link>
  );
}

/** Shows the type and the model of a job. */
export function TypeAndModel({ type, model }: { type: string | null; model: string | null }) {
  return (
    <>
      {formatType(type ?? 'chat')} <span className="dim">{model}</span>
    </>
  );
}
