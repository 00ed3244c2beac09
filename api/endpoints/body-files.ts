/** Files in the body of a Studio request. They are discarded if the request starts no job. */
import type { ReceivedFile, RequestFiles } from '../../storage/inputs/request-files.ts';
import type { Context } from '../context.ts';
import { receiveForm, type FormRules, type ReceivedForm } from '../http/multipart.ts';

/** Services that receive the files of a request. */
export interface FileReceiver {
  requestFiles: RequestFiles;
  /** Registers a file as soon as it begins to arrive, so that it can be discarded. */
  onReceiving: (file: Promise<ReceivedFile>) => void;
}

interface FileRules extends Pick<FormRules<ReceivedFile>, 'files' | 'bytesMax' | 'textBytesMax'> {
  /** Name of the `requestFiles` function that receives and checks each file. */
  receive: 'receivePicture' | 'receiveRecording';
}

/**
 * Receives a form. Registers its files and stores them in the spool.
 * @throws GatewayError the errors of `receiveForm` and of the function that `receive` names
 */
export function receiveFiles(
  ctx: Context,
  { requestFiles, onReceiving }: FileReceiver,
  { receive, ...rules }: FileRules,
): Promise<ReceivedForm<ReceivedFile>> {
  return receiveForm(ctx, {
    ...rules,
    throwIfOverQuota: requestFiles.throwIfOverQuota,
    store(stream, field) {
      const pendingFile = requestFiles[receive]({ field, stream }, ctx.state.caller);
      onReceiving(pendingFile);
      return pendingFile;
    },
  });
}

/** Creates the list of a request's files. */
export function createFileList() {
  const files: Promise<ReceivedFile>[] = [];
  return {
    /**
     * Adds a file that may still be arriving. Errors are ignored here, because the function that
     * reads the request reports them.
     */
    onReceiving(file: Promise<ReceivedFile>): void {
      file.catch(() => {});
      files.push(file);
    },
    /**
     * Discards the files in the background. If that fails, the sweep of unused uploads removes the
     * files later.
     */
    discard(): void {
      for (const pendingFile of files) pendingFile.then((file) => file.discard()).catch(() => {});
    },
  };
}
