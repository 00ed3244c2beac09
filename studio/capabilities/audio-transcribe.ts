/** POST /studio/audio/transcribe (spec §4.10): speech to text with word timestamps. */
import { z } from 'zod';
import { audioModels } from '../models/audio-models.ts';
import { fieldError, fieldsError } from '../../domain/errors.ts';
import { idPattern } from '../../domain/ids.ts';
import type { JsonObject } from '../../domain/json.ts';
import { defineCapability, type FinishedJob } from './capability.ts';
import type { DraftCall, Recording } from '../../domain/draft-plan.ts';
import { transcript } from '../../domain/job-record.ts';
import { publishAudioModel } from '../models/published-models.ts';
import { urlExpiry } from './presentation.ts';
import { asyncFlag, mediaUrl } from './request-fields.ts';

const model = audioModels.transcription;
const { limits } = model;
const uploadBytesMax = 4.5 * 1024 * 1024;

const request = z.strictObject({
  fileId: z
    .string()
    .max(37)
    .regex(idPattern('upload'), 'must be the id of an uploaded file')
    .optional()
    .meta({ description: 'Id of an uploaded file.' }),
  audioUrl: mediaUrl.optional(),
  language: z
    .string()
    .max(35)
    .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, 'must be a language code, e.g. en or deu')
    .optional()
    .meta({ description: 'Language of the speech; detected if not set.' }),
  fileName: z.string().min(1).max(255).optional(),
  async: asyncFlag,
});

type TranscribeRequest = z.infer<typeof request>;

/** Transcribes a recording. */
export const audioTranscribe = defineCapability({
  type: 'audioTranscribe',
  path: '/studio/audio/transcribe',
  medium: 'audio',
  summary: 'Transcribe a recording with word timestamps',
  request,
  takes: { audioUrl: ['audio', 'video'], fileId: ['audio', 'video'] },
  yields: { output: null, texts: ['text', 'language'] },
  example: { audioUrl: 'https://example.com/interview.mp3', language: 'en' },
  data: z.object({
    ...transcript.shape,
    model: z.string(),
    source: z.enum(['file', 'url']),
    transcriptUrl: z.url().meta({ description: 'The transcript as a JSON file.' }),
    expiresAt: urlExpiry,
  }),
  models: [publishAudioModel(model, { of: 'input', default: limits.unmeasuredSeconds.max })],
  upload: { field: 'file', bytesMax: uploadBytesMax },
  recordings(body) {
    const { fileId, audioUrl } = body;
    if (fileId !== undefined && audioUrl !== undefined) {
      const message = 'send only one of fileId and audioUrl';
      throw fieldsError('CONFLICTING_FIELDS', ['fileId', 'audioUrl'], message);
    }
    if (fileId !== undefined) return [{ field: 'fileId', source: fileId }];
    if (audioUrl !== undefined) return [{ field: 'audioUrl', source: audioUrl }];
    const message = 'one of fileId, audioUrl and a multipart file is required';
    throw fieldsError('INVALID_REQUEST', ['fileId', 'audioUrl', 'file'], message);
  },
  plan: (body, [recording = { kind: 'url', url: body.audioUrl ?? '' }] = []) => ({
    model: model.id,
    calls: [
      {
        required: true,
        output: { medium: 'json', format: null },
        meter: 'second',
        ...calculateSeconds(recording, body),
        unitPriceUsd: model.usd,
        priceNote:
          recording.kind === 'url'
            ? 'the provider measures a recording that is sent by URL: the maximum length is reserved, and the measured seconds are charged'
            : undefined,
        routes: [
          {
            provider: model.provider,
            providerEndpoint: 'speech-to-text',
            input: {
              model_id: model.id,
              diarize: true,
              timestamps_granularity: 'word',
              ...(body.language !== undefined && { language_code: stripRegion(body.language) }),
              ...buildSourceFields(recording, body),
            },
          },
        ],
      },
    ],
  }),
  present: presentTranscript,
});

/** Fewest bytes of a second of speech, at 800 bits per second; they bound what a file can hold. */
const bytesPerSecondMin = 100;

/**
 * Returns the seconds for which credits are reserved (the duration of the recording, or the maximum
 * if only the provider can measure it), and the most that is charged if the provider reports more.
 * @throws GatewayError INVALID_REQUEST if a measured recording is too short or too long
 */
function calculateSeconds(
  recording: Recording,
  body: TranscribeRequest,
): Pick<DraftCall, 'quantity'> & { quantityMax: number } {
  if (recording.kind === 'url') {
    return { quantity: limits.unmeasuredSeconds.max, quantityMax: limits.durationSeconds.max };
  }
  const { min, max } = limits.durationSeconds;
  const seconds = recording.durationSeconds;
  if (seconds < min || seconds > max) {
    const path = body.fileId === undefined ? 'audioUrl' : 'fileId';
    throw fieldError('INVALID_REQUEST', path, `must last ${min} to ${max} seconds`);
  }
  const quantity = Math.ceil(seconds);
  const holdable = Math.ceil(recording.sizeBytes / bytesPerSecondMin);
  return { quantity, quantityMax: Math.max(quantity, Math.min(max, holdable)) };
}

/** Extensions that the provider knows, for those of stored files that it does not know. */
const providerExtensions: Readonly<Record<string, string>> = { weba: 'webm', mka: 'mkv' };

/**
 * Returns the provider's input fields for the recording. A stored file is sent with the request,
 * because the provider may be unable to reach this gateway.
 */
function buildSourceFields(recording: Recording, body: TranscribeRequest): JsonObject {
  if (recording.kind === 'url') return { source_url: recording.url };
  const { storageKey, type } = recording;
  const name = body.fileName ?? storageKey.slice(storageKey.lastIndexOf('/') + 1);
  const extension = providerExtensions[type.extension] ?? type.extension;
  // The provider goes by the name and the type, which the caller may have chosen wrongly.
  const baseName = name.replace(/\.[A-Za-z0-9]{1,5}$/, '') || 'recording';
  return { file: { storageKey, name: `${baseName}.${extension}`, type: type.contentType } };
}

/**
 * Strips the region from a language code (`en-US` becomes `en`), because the provider does not
 * support regions.
 */
function stripRegion(language: string): string {
  return (language.split('-')[0] ?? '').toLowerCase();
}

/**
 * Builds the `data` of the response: the stored transcript. A list of jobs does not read the stored
 * document; there, `data` contains only the fields of the call's result, without the words.
 */
function presentTranscript(job: FinishedJob): Record<string, unknown> {
  const [document] = job.outputs[0]?.artifacts ?? [];
  const content = document ? job.readDocument(document) : null;
  const fields = content ?? job.outputs[0]?.data;
  return {
    ...transcript.partial().parse(fields),
    model: job.model,
    source: job.request['audioUrl'] === undefined ? 'file' : 'url',
    transcriptUrl: document ? job.urlOf(document) : null,
    expiresAt: job.urlsExpireAt,
  };
}
