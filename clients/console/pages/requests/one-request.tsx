/** Page of one request: its figures, its error, and a link to the playground. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { useSessionKey } from '../../gateway/session.ts';
import { Credits } from '../../parts/amounts.tsx';
import { DescriptionList } from '../../parts/description-list.tsx';
import { CopyId } from '../../parts/ids.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import { DateTime, formatDuration } from '../../parts/times.tsx';
import { keysQuery } from '../keys/key-query.ts';
import {
  findPlayground,
  formatTokens,
  requestKinds,
  requestQuery,
  type RequestRecord,
} from './request-query.ts';

/** Shows the page of a request. */
export default function OneRequest({ id }: { id: string }) {
  const { data, error } = useQuery(requestQuery(id));
  return (
    <>
      <p className="back">
        <Link href="/requests">← Requests</Link>
      </p>
      <ErrorMessage error={error} />
      {!data && !error && <Loading />}
      {data && <RequestSections request={data.data} />}
    </>
  );
}

function RequestSections({ request }: { request: RequestRecord }) {
  const { kind, status, error } = request;
  const playground = findPlayground(request);
  return (
    <>
      <div className="head">
        <h1>{requestKinds[kind]} request</h1>
        <State name={status} />
        {playground !== null && (
          <Link className="button" href={playground}>
            Replay in the playground
          </Link>
        )}
      </div>
      <div className="stack">
        {error && (
          <div className="error">
            <span>
              {error.message} {error.field !== null && `Field: ${error.field}. `}
              <code>{error.code}</code>
            </span>
          </div>
        )}
        <Details request={request} />
        {playground !== null && (
          <p className="hint">
            The gateway stores no texts of requests and answers. The playground opens with the model
            or the form of this request, without its text.
          </p>
        )}
      </div>
    </>
  );
}

function Details({ request }: { request: RequestRecord }) {
  const mayReadKeys = useSessionKey().explainDenial('keys:read') === null;
  const { data: keyList } = useQuery({ ...keysQuery, enabled: mayReadKeys });
  const { firstTokenMs, durationMs, keyId, requestId, path, error, metadata } = request;
  const key = keyList?.keys.find((one) => one.keyId === keyId);
  const tags = Object.entries(metadata).map(([name, value]) => `${name}=${value}`);
  return (
    <section className="card">
      <h2>Details</h2>
      <DescriptionList
        items={{
          Model: request.model ?? '–',
          ...(request.provider !== null && { Provider: request.provider }),
          ...(path !== null && { Endpoint: <code>POST {path}</code> }),
          ...(error?.status != null && { 'HTTP status': error.status }),
          ...(request.inputTokens !== null && { 'Tokens in → out': formatTokens(request) }),
          ...(firstTokenMs !== null && { 'First token after': formatDuration(firstTokenMs) }),
          ...(durationMs !== null && { Duration: formatDuration(durationMs) }),
          Credits: <Credits amount={request.credits} />,
          Created: <DateTime time={request.createdAt} />,
          Id: <CopyId id={request.id} />,
          ...(requestId !== null && { Request: <CopyId id={requestId} /> }),
          Key: key ? <span title={keyId}>{key.name}</span> : <CopyId id={keyId} />,
          ...(tags.length > 0 && {
            Tags: tags.map((tag) => (
              <Link key={tag} className="chip" href={`/requests?tag=${encodeURIComponent(tag)}`}>
                {tag}
              </Link>
            )),
          }),
        }}
      />
    </section>
  );
}
