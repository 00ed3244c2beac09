/** POST /api/v1/audio/transcriptions: audioTranscribe, as OpenAI's clients ask for it: a form with a file. */
import { z } from 'zod';
import { audioModels } from '../../../catalog/audio-models.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { fieldError } from '../../../domain/errors.ts';
import { keysOf } from '../../../domain/json.ts';
import { audioTranscribe } from '../../../studio/audio-transcribe.ts';
import { parseWith } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { receiveForm } from '../../middleware/multipart.ts';
import type { ReadRequestOf } from '../../studio/request-draft.ts';
import { defineOperation, ownAnswer } from '../operation.ts';
import { fileErrors, studioHeaders } from '../studio.ts';
import { finishedAnswer, finishedJob, jobErrors, requestOf } from './finished-job.ts';
import { transcriptData, transcriptFormats } from './transcript-formats.ts';

/** What OpenAI's clients may send. */
const bytesMax = 25 * 1024 * 1024;

const fields = {
  model: z.string().max(256).meta({ example: audioModels.transcription.id }),
  language: z.string().max(35).nullish(),
  response_format: z.enum(keysOf(transcriptFormats)).default('json'),
  stream: z.literal('false', 'is not taken here: a transcript comes whole').nullish(),
};
const form = bodySchema(z.object(fields));
type Format = keyof typeof transcriptFormats;

function readRecording(asked: (format: Format) => void): ReadRequestOf {
  return async (ctx, capability, { recordings, onKeeping }) => {
    const field = 'file';
    const { texts, files } = await receiveForm(ctx, {
      fields: [field],
      bytesMax,
      keep(stream) {
        const keeping = recordings.keep({ field, stream }, ctx.state.caller);
        onKeeping(keeping.then(({ recording }) => recording));
        return keeping;
      },
    });
    const { model, language, response_format: format } = parseWith(form, texts);
    asked(format);
    findByAnyName([audioModels.transcription], model);
    const [file] = files;
    if (!file) throw fieldError('INVALID_REQUEST', field, 'is required');
    const { fileId, recording } = file.kept;
    const named = file.name === '' ? {} : { fileName: file.name.slice(0, 255) };
    const spoken = language == null || language === '' ? {} : { language };
    return { ...requestOf(capability, { fileId, ...named, ...spoken }), recording };
  };
}

/** See the file's head. */
export const audioTranscriptions = defineOperation({
  route: 'POST /api/v1/audio/transcriptions',
  scope: 'studio:audio',
  errorShape: 'openai',
  summary: 'Transcribe a recording (OpenAI-compatible)',
  description:
    'The same job as POST /api/v1/studio/audio/transcribe. Fields not named here are dropped. ' +
    '`text`, `srt` and `vtt` are answered as text.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({ file: z.string().meta({ format: 'binary' }), ...fields }),
      },
    },
  },
  answer: ownAnswer,
  answers: {
    200: finishedAnswer('The transcript.', z.looseObject({ text: z.string() })),
  },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: Format = 'json';
    const read = readRecording((wanted) => {
      format = wanted;
    });
    const job = await finishedJob(ctx, { capability: audioTranscribe, read }, services);
    const transcript = transcriptData.parse(await services.view.result(job));
    const { type, show } = transcriptFormats[format];
    ctx.type = type;
    ctx.body = show(transcript);
  },
});
