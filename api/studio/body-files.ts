/** Files in the body of a Studio request, which are discarded if the request starts no job. */
import type { ReceivedFile, RequestFiles } from '../../storage/inputs/request-files.ts';
import type { Context } from '../context.ts';
import { receiveForm, type FormRules, type ReceivedForm } from '../http/multipart.ts';

/** Services that receive the files of a request. */
export interface FileReceiver {
  requestFiles: RequestFiles;
  /** Registers a file as soon as it arrives, so that it can be discarded. */
  onReceiving: (file: Promise<ReceivedFile>) => void;
}

interface FileRules extends Pick<
  FormRules<ReceivedFile>,
  'fields' | 'filesMax' | 'bytesMax' | 'textBytesMax'
> {
  /** Function that receives and checks each file. */
  receive: 'receivePicture' | 'receiveRecording';
}

/**
 * Receives a form and registers its files.
 * @throws GatewayError the errors of `receiveForm` and of the receiving function
 */
export function receiveFiles(
  ctx: Context,
  { requestFiles, onReceiving }: FileReceiver,
  { receive, ...rules }: FileRules,
): Promise<ReceivedForm<ReceivedFile>> {
  return receiveForm(ctx, {
    ...rules,
    requireRoom: requestFiles.requireRoom,
    keep(stream, field) {
      const receiving = requestFiles[receive]({ field, stream }, ctx.state.caller);
      onReceiving(receiving);
      return receiving;
    },
  });
}

/** Makes the list of the files of a request. */
export function createFileList() {
  const files: Promise<ReceivedFile>[] = [];
  return {
    /** Adds a file, which may still be arriving; the reader of the request reports its failure. */
    onReceiving(file: Promise<ReceivedFile>): void {
      file.catch(() => {});
      files.push(file);
    },
    /**
     * Discards the files without delaying the response; the sweep of unused uploads removes what is
     * missed here.
     */
    discard(): void {
      for (const receiving of files) receiving.then((file) => file.discard()).catch(() => {});
    },
  };
}
