/** Files page: everything stored, newest first: outputs of jobs and uploads. */
import { Fragment } from 'react';
import { Link } from 'wouter';
import { api, unwrap, type Schemas } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { formatBytes } from '../../parts/amounts.tsx';
import { TabButtons } from '../../parts/fields.tsx';
import { useQueryString } from '../../parts/query-string.ts';
import { ShowMore } from '../../parts/show-more.tsx';
import { Empty, ErrorMessage, Loading } from '../../parts/states.tsx';
import { LinkExpiry, RelativeTime, formatDay } from '../../parts/times.tsx';
import { findMediaKind, type Media } from '../job/job-media.ts';
import { MediaPlayer } from '../job/job-result.tsx';
import { ResultActions } from '../job/result-actions.tsx';

type StoredFile = Schemas['File'];

const pageSize = 60;
const tabs = [
  ['', 'All'],
  ['image', 'Images'],
  ['video', 'Videos'],
  ['audio', 'Audio'],
  ['upload', 'Uploads'],
] as const;

/** Shows the files page. */
export default function Files() {
  const [search, change] = useQueryString();
  const tab = tabs.find(([name]) => name === search.get('show'))?.[0] ?? '';
  const denial = useSessionKey().explainDenial('studio:read');
  return (
    <>
      <div className="head">
        <h1>Files</h1>
        {denial === null && (
          <TabButtons
            label="Show"
            options={tabs}
            value={tab}
            change={(name) => change('show', name)}
          />
        )}
      </div>
      {denial === null ? <FileWall tab={tab} /> : <Empty title="Files">{denial}</Empty>}
    </>
  );
}

function FileWall({ tab }: { tab: (typeof tabs)[number][0] }) {
  const kind = tab === 'upload' ? tab : undefined;
  const { items, error, ...pages } = usePages({
    queryKey: ['files', kind],
    read: (cursor) =>
      unwrap(
        api.GET('/api/v1/storage/files', {
          params: { query: { limit: pageSize, ...(kind && { kind }), ...cursor } },
        }),
      ),
  });
  if (error) return <ErrorMessage error={error} />;
  if (!items) return <Loading />;
  const files = items.filter(
    ({ url, contentType }) =>
      url !== null && (tab === '' || tab === 'upload' || findMediaKind(contentType) === tab),
  );
  return (
    <>
      {files.length === 0 && !pages.readMore && (
        <Empty title="No files yet">
          Results and uploads of the <Link href="/">playground</Link> appear here.
        </Empty>
      )}
      <ul className="file-wall" aria-label="Files">
        {files.map((file, index) => (
          <Fragment key={file.storagePath}>
            {formatDay(file.createdAt) !== formatDay(files[index - 1]?.createdAt) && (
              <li className="day">{formatDay(file.createdAt)}</li>
            )}
            <FileTile file={file} />
          </Fragment>
        ))}
      </ul>
      <ShowMore {...pages} />
    </>
  );
}

function FileTile({ file }: { file: StoredFile }) {
  const { url, contentType, sizeBytes, filename, jobId, fileId, createdAt } = file;
  const media: Media = {
    url: url ?? '',
    kind: findMediaKind(contentType) ?? 'file',
    caption: '',
    expiresAt: file.expiresAt,
  };
  const name = filename ?? media.kind.charAt(0).toUpperCase() + media.kind.slice(1);
  return (
    <li className="card">
      <MediaPlayer media={media} alt={name} />
      <p title={contentType ?? undefined}>
        {jobId === null ? name : <Link href={`/jobs/${jobId}`}>{name}</Link>}
        <span className="hint block">
          {sizeBytes !== null && `${formatBytes(sizeBytes)} · `}
          <RelativeTime time={createdAt} />
        </span>
        {file.expiresAt && (
          <span className="hint block">
            <LinkExpiry time={file.expiresAt} />
          </span>
        )}
      </p>
      <ResultActions media={media} jobId={jobId} fileId={fileId} isCompact />
    </li>
  );
}
