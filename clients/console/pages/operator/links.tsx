/** Links to the operators' pages of jobs and organizations. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
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

/** Query for an organization. */
export const organizationQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ['operator', 'organization', organizationId],
    queryFn: () => {
      const params = { path: { organizationId } };
      return unwrap(operatorApi.GET('/api/admin/v1/organizations/{organizationId}', { params }));
    },
  });

/** Shows a link to the page of an organization. Its text is the name, which is read if it is omitted. */
export function OrganizationLink({ id, name }: { id: string; name?: string }) {
  const { data } = useQuery({ ...organizationQuery(id), enabled: name === undefined });
  return (
    <Link href={`/operator/organizations/${id}`} title={id}>
      {name ?? data?.data.name ?? <IdTail id={id} />}
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
