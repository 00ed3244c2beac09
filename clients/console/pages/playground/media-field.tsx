/** Fields for media files: the user enters a URL, or drops or chooses a file to upload. */
import { useMutation } from '@tanstack/react-query';
import { useState, type DragEvent } from 'react';
import { ApiError, unwrap, api } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ErrorMessage } from '../../parts/states.tsx';
import type { FieldSchema } from './capability.ts';

interface MediaFieldProps {
  id: string;
  value: unknown;
  isRequired: boolean;
  change: (value: unknown) => void;
}

/** Shows the field for one media file. */
export function MediaField({ id, value, isRequired, change }: MediaFieldProps) {
  return (
    <DropZone onUpload={([file]) => change(file)}>
      <input
        id={id}
        type="text"
        inputMode="url"
        required={isRequired}
        placeholder="https://… or drop a file here"
        value={typeof value === 'string' ? value : ''}
        onChange={({ target }) => change(target.value || undefined)}
      />
    </DropZone>
  );
}

/** Shows the field for several media files, one per line. */
export function MediaListField({
  id,
  value,
  list,
  isRequired,
  change,
}: MediaFieldProps & { list: FieldSchema }) {
  const urls: string[] = Array.isArray(value) ? value : [];
  const changeUrls = (next: string[]): void => change(next.slice(0, list.maxItems));
  return (
    <DropZone isMultiple onUpload={(files) => changeUrls([...urls.filter(Boolean), ...files])}>
      <textarea
        id={id}
        required={isRequired}
        placeholder="One URL per line, or drop files here"
        value={urls.join('\n')}
        onChange={({ target }) => changeUrls(target.value === '' ? [] : target.value.split('\n'))}
      />
    </DropZone>
  );
}

interface DropZoneProps {
  isMultiple?: boolean;
  /** Receives the ids of the uploaded files. */
  onUpload: (fileIds: string[]) => void;
  children: React.ReactNode;
}

function DropZone({ isMultiple = false, onUpload, children }: DropZoneProps) {
  const sessionKey = useSessionKey();
  const [isOver, setOver] = useState(false);
  const upload = useMutation({
    mutationFn: (files: File[]) => Promise.all(files.map(uploadFile)),
    onSuccess: onUpload,
  });
  const denial = sessionKey.explainDenial('storage:write');
  const startUpload = (files: FileList | null): void => {
    const chosen = [...(files ?? [])];
    if (chosen.length > 0 && denial === null)
      upload.mutate(isMultiple ? chosen : chosen.slice(0, 1));
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    startUpload(event.dataTransfer.files);
  };
  return (
    <div
      className={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      {children}
      <p className="row">
        <label className="button" title={denial ?? undefined}>
          {upload.isPending ? 'Uploading…' : isMultiple ? 'Choose files' : 'Choose file'}
          <input
            className="unseen"
            type="file"
            multiple={isMultiple}
            disabled={denial !== null || upload.isPending}
            onChange={({ target }) => startUpload(target.files)}
          />
        </label>
      </p>
      <ErrorMessage error={upload.error} />
    </div>
  );
}

/** Uploads a file and returns its id. @throws ApiError */
async function uploadFile(file: File): Promise<string> {
  const body = { filename: file.name, contentType: file.type, size: file.size };
  const uploadTarget = await unwrap(api.POST('/api/v1/storage/upload-url', { body }));
  const response = await fetch(uploadTarget.uploadUrl, {
    method: uploadTarget.method,
    headers: uploadTarget.headers,
    body: file,
  });
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => null));
  return uploadTarget.fileId;
}
