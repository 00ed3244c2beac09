/** POST /api/v1/audio/transcriptions: audioTranscribe in the format of OpenAI's audio API. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { audioModels } from '../../../studio/models/audio-models.ts';
import { findByAnyName } from '../../../studio/models/maker-names.ts';
import { fieldError } from '../../../domain/errors.ts';
import { keysOf } from '../../../domain/json.ts';
import { audioTranscribe } from '../../../studio/capabilities/audio-transcribe.ts';
import { parseBody } from '../../http/ignored-fields.ts';
import {
  receiveFiles,
  createRecordingStore,
  parseCapabilityFields,
  type RequestBodyReader,
} from '../studio-body.ts';
import { defineEndpoint, rawResponse } from '../endpoint.ts';
import { fileErrors, studioHeaders } from '../studio-results.ts';
import { describeFinishedJob, jobErrors, sendJson, startAwaitedJob } from './finished-job.ts';
import { transcriptData, transcriptFormats } from './transcript-formats.ts';

/** Maximum size of a recording in bytes, the same as OpenAI's. */
const recordingBytesMax = 25 * 1024 * 1024;

const formFields = {
  model: z.string().max(256).meta({ example: audioModels.transcription.id }),
  language: z.string().max(35).nullish(),
  response_format: z.enum(keysOf(transcriptFormats)).default('json'),
  stream: z
    .literal('false', 'is not supported: streaming is not available for transcripts')
    .nullish(),
};
const form = z.object(formFields);
type Format = keyof typeof transcriptFormats;

function createRecordingReader(onFormat: (format: Format) => void): RequestBodyReader {
  return async (ctx, capability, receiver) => {
    const field = 'file';
    const { texts, files } = await receiveFiles(ctx, receiver, {
      receive: 'receiveRecording',
      files: { [field]: 1 },
      bytesMax: recordingBytesMax,
    });
    const fields = parseBody(ctx, { schema: form, value: texts, part: 'form' });
    const { model, language, response_format: format } = fields;
    onFormat(format);
    findByAnyName([audioModels.transcription], model);
    const [file] = files;
    if (!file) throw fieldError('INVALID_REQUEST', field, 'is required');
    const fileName = file.name === '' ? {} : { fileName: file.name };
    const languageField = language == null ? {} : { language };
    const parsedRequest = parseCapabilityFields(capability, {
      fileId: file.stored.contentId,
      ...fileName,
      ...languageField,
    });
    return {
      ...parsedRequest,
      storeFiles: createRecordingStore(file.stored),
    };
  };
}

/** Endpoint POST /api/v1/audio/transcriptions, whose body is a form with a file. */
export const audioTranscriptions = defineEndpoint({
  route: 'POST /api/v1/audio/transcriptions',
  scope: 'studio:audio',
  allowsTokens: true,
  errorFormat: 'openai',
  summary: 'Transcribe a recording (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/audio/transcribe. Fields that are not listed here are ignored. ' +
    'With the response formats `text`, `srt` and `vtt` the response is plain text.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({ file: z.string().meta({ format: 'binary' }), ...formFields }),
      },
    },
  },
  response: rawResponse,
  responses: {
    200: {
      ...describeFinishedJob('The transcript.', z.looseObject({ text: z.string() })),
      textTypes: ['text/plain', 'text/vtt'],
    },
  },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: Format = 'json';
    const readBody = createRecordingReader((requested) => {
      format = requested;
    });
    const job = await startAwaitedJob(ctx, { capability: audioTranscribe, readBody }, services);
    const { type, show } = transcriptFormats[format];
    const formatTranscript = async (done: JobRecord) =>
      show(transcriptData.parse(await services.view.result(done)));
    if (type === 'application/json') {
      const toJson = async function* (done: JobRecord) {
        yield await formatTranscript(done);
      };
      return sendJson(ctx, job, { toJson, services });
    }
    ctx.body = await formatTranscript(await job.awaitCompleted());
    ctx.type = type;
  },
});
