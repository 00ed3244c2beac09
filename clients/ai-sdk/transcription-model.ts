/** Transcription model: `transcribe` of the AI SDK. */
import type {
  TranscriptionModelV4,
  TranscriptionModelV4CallOptions,
  TranscriptionModelV4Result,
} from '@ai-sdk/provider';
import { describeJob, runJob, toUrl, type Studio } from './jobs.ts';

/** Id of the transcription model. */
export type TranscriptionModelId = 'scribe_v2' | (string & {});

const capability = 'audio/transcribe';

type Segment = TranscriptionModelV4Result['segments'][number];

/** Joins words to sentences. */
function joinSentences(words: readonly Segment[]): Segment[] {
  const sentences: Segment[] = [];
  for (const word of words) {
    const last = sentences.at(-1);
    if (!last || /[.!?…。！？]$/u.test(last.text)) sentences.push({ ...word });
    else Object.assign(last, { text: `${last.text} ${word.text}`, endSecond: word.endSecond });
  }
  return sentences;
}

/** Creates a transcription model. */
export function createTranscriptionModel(
  studio: Studio,
  modelId: TranscriptionModelId,
): TranscriptionModelV4 {
  async function transcribe(
    audioUrl: string,
    options: Omit<TranscriptionModelV4CallOptions, 'audio' | 'mediaType'>,
  ): Promise<TranscriptionModelV4Result> {
    const { warnings } = await studio.models.takeSettings(
      { capability, modelId, modelType: 'transcriptionModel' },
      {},
    );
    const body = { audioUrl, ...options.providerOptions?.['studio'] };
    const job = await runJob(studio, { capability, body }, options);
    const { text, language, durationSeconds, words, transcriptUrl } = job.result;
    const timed = words
      .filter(({ type }) => type === 'word')
      .map(({ text: word, start, end }) => ({ text: word, startSecond: start, endSecond: end }));
    return {
      text,
      segments: joinSentences(timed),
      words: timed,
      language: language ?? undefined,
      durationInSeconds: durationSeconds ?? undefined,
      warnings,
      providerMetadata: { studio: { ...describeJob(job), transcriptUrl } },
      response: { timestamp: new Date(), modelId: job.result.model },
    };
  }

  return {
    specificationVersion: 'v4',
    provider: 'studio.transcription',
    modelId,
    doGenerateFromUrl: ({ audio, ...options }) => transcribe(audio.href, options),
    async doGenerate({ audio: data, mediaType, ...options }) {
      return transcribe(await toUrl(studio, { type: 'file', data, mediaType }), options);
    },
  };
}
