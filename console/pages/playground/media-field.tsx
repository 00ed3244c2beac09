/** Fields for media: a URL, or a file that is dropped or chosen and then uploaded. */
import { useMutation } from '@tanstack/react-query';
import { useState, type DragEvent } from 'react';
import { ApiError, answered, api } from '../../gateway/client.ts';
import { useWho } from '../../gateway/session.ts';
import { Refusal } from '../../parts/states.tsx';
import type { FieldSchema } from './capability.ts';

interface MediaFieldProps {
  id: string;
  value: unknown;
  isRequired: boolean;
  change: (value: unknown) => void;
}

/** Shows the field of one medium. */
export function MediaField({ id, value, isRequired, change }: MediaFieldProps) {
  return (
    <Drop take={([file]) => change(file)}>
      <input
        id={id}
        type="text"
        inputMode="url"
        required={isRequired}
        placeholder="https://… or drop a file here"
        value={typeof value === 'string' ? value : ''}
        onChange={({ target }) => change(target.value || undefined)}
      />
    </Drop>
  );
}

/** Shows the field of several media, one per line. */
export function MediaListField({
  id,
  value,
  list,
  isRequired,
  change,
}: MediaFieldProps & { list: FieldSchema }) {
  const urls: string[] = Array.isArray(value) ? value : [];
  const put = (next: string[]): void => change(next.slice(0, list.maxItems));
  return (
    <Drop take={(files) => put([...urls.filter(Boolean), ...files])} several>
      <textarea
        id={id}
        required={isRequired}
        placeholder="One URL per line, or drop files here"
        value={urls.join('\n')}
        onChange={({ target }) => put(target.value === '' ? [] : target.value.split('\n'))}
      />
    </Drop>
  );
}

interface DropProps {
  several?: boolean;
  /** Receives the ids of the uploaded files. */
  take: (fileIds: string[]) => void;
  children: React.ReactNode;
}

function Drop({ several = false, take, children }: DropProps) {
  const who = useWho();
  const [isOver, setOver] = useState(false);
  const upload = useMutation({
    mutationFn: (files: File[]) => Promise.all(files.map(uploadFile)),
    onSuccess: take,
  });
  const refusal = who.refuses('storage:write');
  const begin = (files: FileList | null): void => {
    const chosen = [...(files ?? [])];
    if (chosen.length > 0 && refusal === null) upload.mutate(several ? chosen : chosen.slice(0, 1));
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    begin(event.dataTransfer.files);
  };
  return (
    <div
      className={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      {children}
      <p className="row">
        <label className="button" title={refusal ?? undefined}>
          {upload.isPending ? 'Uploading…' : several ? 'Choose files' : 'Choose file'}
          <input
            className="unseen"
            type="file"
            multiple={several}
            disabled={refusal !== null || upload.isPending}
            onChange={({ target }) => begin(target.files)}
          />
        </label>
      </p>
      <Refusal error={upload.error} />
    </div>
  );
}

/** Uploads a file and returns its id. @throws ApiError */
async function uploadFile(file: File): Promise<string> {
  const body = { filename: file.name, contentType: file.type, size: file.size };
  const place = await answered(api.POST('/api/v1/storage/upload-url', { body }));
  const sent = await fetch(place.uploadUrl, {
    method: place.method,
    headers: place.headers,
    body: file,
  });
  if (!sent.ok) throw new ApiError(sent.status, await sent.json().catch(() => null));
  return place.fileId;
}
