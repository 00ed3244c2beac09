/** Files in the body of a Studio request, which are discarded if the request starts no job. */
import type { ReceivedFile, RequestFiles } from '../../storage/inputs/request-files.ts';

/** Services that receive the files of a request. */
export interface FileReceiver {
  requestFiles: RequestFiles;
  /** Registers a file as soon as it arrives, so that it can be discarded. */
  onReceiving: (file: Promise<ReceivedFile>) => void;
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
