/** Actions on a stored file: download, copy, use in another endpoint, delete. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Code, Copy, Download, Ellipsis, ExternalLink, Trash2, WandSparkles } from 'lucide-react';
import { useState } from 'react';
import { unwrap, api } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { copyText } from '../../parts/copy.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { ActionMenu, type MenuAction } from '../../parts/menu.tsx';
import { showToast } from '../../parts/toast.tsx';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';
import { CodeDialog } from '../playground/copy-as.tsx';
import { useOpenForm } from '../playground/draft.ts';
import type { Media } from './job-media.ts';

/** Endpoints that take a file of a kind: job type, field and label. */
const nextSteps: Record<Media['kind'], readonly (readonly [string, string, string])[]> = {
  image: [
    ['imageEdit', 'imageUrls', 'Edit'],
    ['imageUpscale', 'imageUrl', 'Upscale'],
    ['imageRemoveBackground', 'imageUrl', 'Remove background'],
    ['videoGenerate', 'imageUrl', 'Animate'],
    ['imageGenerate', 'imageUrls', 'Use as input'],
  ],
  video: [
    ['videoUpscale', 'videoUrl', 'Upscale'],
    ['videoRemoveBackground', 'videoUrl', 'Remove background'],
  ],
  audio: [['audioTranscribe', 'audioUrl', 'Transcribe']],
  file: [],
};

/** Returns the actions that open the form of another endpoint with the file. */
function useNextSteps({ url, kind }: Media): MenuAction[] {
  const openForm = useOpenForm();
  const { data } = useQuery(capabilitiesQuery);
  return nextSteps[kind].flatMap(([type, field, label]) => {
    const capability = data?.data.find((candidate) => candidate.type === type);
    if (!capability) return [];
    const perform = (): void =>
      openForm(capability, { [field]: field.endsWith('s') ? [url] : url });
    return [{ label, icon: <WandSparkles aria-hidden />, perform }];
  });
}

interface ResultActionsProps {
  media: Media;
  /** Job that made the file, whose outputs *Delete* removes. */
  jobId: string | null;
  /** Id of an uploaded file, which *Delete* removes. */
  fileId?: string | null | undefined;
  /** True to show only the menu, which then has all actions. */
  isCompact?: boolean;
}

/** Shows the actions on a file. */
export function ResultActions({ media, jobId, fileId, isCompact = false }: ResultActionsProps) {
  const [opened, setOpened] = useState<'code' | 'delete' | null>(null);
  const onClose = (): void => setOpened(null);
  const steps = useNextSteps(media);
  const denial = useSessionKey().explainDenial('files:delete');
  const more = [
    ...(isCompact ? steps : []),
    ...listUrlActions(media.url),
    ...(jobId === null
      ? []
      : [{ label: 'Copy as code', icon: <Code aria-hidden />, perform: () => setOpened('code') }]),
    {
      label: 'Delete',
      icon: <Trash2 aria-hidden />,
      isDangerous: true,
      disabledReason: denial,
      perform: () => setOpened('delete'),
    },
  ];
  const link = { href: media.url, download: true, target: '_blank', rel: 'noreferrer' };
  return (
    <div className="row actions">
      <a {...link} className="button" aria-label="Download">
        <Download aria-hidden /> {!isCompact && 'Download'}
      </a>
      {!isCompact &&
        steps.map(({ label, perform }) => (
          <button key={label} type="button" onClick={perform}>
            {label}
          </button>
        ))}
      <ActionMenu label="More actions" actions={more}>
        <Ellipsis aria-hidden />
      </ActionMenu>
      {opened === 'delete' && <DeleteDialog {...{ jobId, fileId, onClose }} />}
      {opened === 'code' && jobId !== null && <CodeDialog {...{ jobId, onClose }} />}
    </div>
  );
}

const listUrlActions = (url: string): MenuAction[] => [
  {
    label: 'Copy URL',
    icon: <Copy aria-hidden />,
    perform: () =>
      void copyText(url, null).then((isCopied) =>
        showToast(isCopied ? 'URL copied' : 'This page has no clipboard.'),
      ),
  },
  {
    label: 'Open in a new tab',
    icon: <ExternalLink aria-hidden />,
    perform: () => void window.open(url, '_blank', 'noreferrer'),
  },
];

interface DeleteDialogProps extends Pick<ResultActionsProps, 'jobId' | 'fileId'> {
  onClose: () => void;
}

function DeleteDialog({ jobId, fileId, onClose }: DeleteDialogProps) {
  const client = useQueryClient();
  const remove = async (): Promise<void> => {
    if (fileId) {
      const params = { path: { fileId } };
      await unwrap(api.DELETE('/api/v1/storage/files/{fileId}', { params }));
    } else if (jobId !== null) {
      const params = { path: { jobId } };
      await unwrap(api.DELETE('/api/v1/studio/jobs/{jobId}/media', { params }));
    }
    for (const queryKey of [['job', jobId], ['jobs'], ['files']])
      void client.invalidateQueries({ queryKey });
  };
  return (
    <FormDialog
      title="Delete the file?"
      verb="Delete"
      done="File deleted"
      isDangerous
      perform={remove}
      onClose={onClose}
    >
      <p>
        {fileId
          ? 'The uploaded file is deleted. Jobs that have not read it yet fail.'
          : 'All outputs of the job are deleted. The job, its request and its charge stay.'}
      </p>
    </FormDialog>
  );
}
