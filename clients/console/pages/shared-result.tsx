/** Page of a share link: the result of a job, for people without a key. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../gateway/client.ts';
import { formatType } from '../parts/names.ts';
import { ErrorMessage, Loading } from '../parts/states.tsx';
import { DateTime, RelativeTime } from '../parts/times.tsx';
import { findTranscript, listMedia } from './job/job-media.ts';
import { MediaPlayer } from './job/job-result.tsx';

/** Shows the result that the token in the fragment of the URL opens. */
export default function SharedResult() {
  const [token] = useState(() => location.hash.slice(1));
  const { data, error } = useQuery({
    queryKey: ['shared', token],
    queryFn: async () => {
      const body = { token };
      return (await unwrap(api.POST('/api/v1/studio/shares/open', { body }))).data;
    },
    // Each request counts as an opening.
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <main className="shared stack">
      <title>Shared result · Studio Gateway</title>
      <div className="head">
        <h1>{data ? formatType(data.type) : 'Shared result'}</h1>
        {data && (
          <p className="dim">
            made <DateTime time={data.completedAt ?? ''} /> · the link ends{' '}
            <RelativeTime time={data.expiresAt} />
          </p>
        )}
      </div>
      <ErrorMessage error={error} />
      {!data && !error && <Loading />}
      {data && <Result type={data.type} result={data.result} />}
    </main>
  );
}

function Result({ type, result }: { type: string; result: Record<string, unknown> }) {
  const media = listMedia({ result });
  const text = findTranscript(result);
  return (
    <>
      {media.length > 0 && (
        <div className={media.length > 2 ? 'media many' : 'media'}>
          {media.map((file) => (
            <figure key={file.url}>
              <MediaPlayer media={file} alt={`Result: ${formatType(type)}`} />
              <figcaption className="row dim">
                {file.caption}
                <a href={file.url} download target="_blank" rel="noreferrer">
                  Download
                </a>
              </figcaption>
            </figure>
          ))}
        </div>
      )}
      {text !== null && <pre className="card">{text}</pre>}
      {media.length === 0 && text === null && (
        <pre className="code">{JSON.stringify(result, null, 2)}</pre>
      )}
    </>
  );
}
