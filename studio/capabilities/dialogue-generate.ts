/**
 * POST /studio/dialogue/generate (spec §4.8): lines in several voices, stitched into one recording.
 */
import { z } from 'zod';
import { audioModels } from '../models/audio-models.ts';
import { findProviderVoiceId } from '../models/voices.ts';
import { countCharacters } from '../../domain/field-messages.ts';
import { defineCapability } from './capability.ts';
import type { DraftCall } from '../../domain/draft-plan.ts';
import { publishAudioModel } from '../models/published-models.ts';
import { presentFile, storedFileData, getRecording } from './presentation.ts';
import {
  asyncFlag,
  fitsIntoPlan,
  tooLongForPlan,
  numberFieldWithDefault,
  textField,
  voiceName,
} from './request-fields.ts';

const model = audioModels.dialogue;
const { limits } = model;

const inputs = z
  .array(z.strictObject({ text: textField(limits.lineText), voiceId: voiceName }))
  .min(limits.inputs.min)
  .max(limits.inputs.max)
  .refine((lines) => countLineCharacters(lines) <= limits.totalText.max, {
    error: `must have at most ${limits.totalText.max} characters in all`,
    abort: true,
  })
  .refine(fitsIntoPlan, `${tooLongForPlan}; split it into two dialogues`);

const request = z.strictObject({
  inputs,
  title: textField(limits.title),
  stability: numberFieldWithDefault(limits.stability),
  similarityBoost: numberFieldWithDefault(limits.similarityBoost),
  async: asyncFlag,
});

type DialogueRequest = z.infer<typeof request>;

/** Generates a dialogue. */
export const dialogueGenerate = defineCapability({
  type: 'dialogueGenerate',
  path: '/studio/dialogue/generate',
  medium: 'audio',
  summary: 'Turn a dialogue into speech with several voices',
  request,
  example: {
    title: 'At the harbour',
    inputs: [
      { voiceId: 'rachel', text: 'Is the boat in yet?' },
      { voiceId: 'george', text: 'Since this morning.' },
    ],
  },
  data: z.object({
    ...storedFileData,
    title: z.string(),
    model: z.string(),
    dialogueLines: z.array(z.object({ line: z.int(), voice: z.string(), text: z.string() })),
    voicesUsed: z.array(z.string()),
    totalLines: z.int(),
    totalTextLength: z.int(),
    metadata: z.object({
      stability: z.number(),
      similarityBoost: z.number(),
      chunks: z.int().meta({ description: 'Number of requests to the provider.' }),
    }),
  }),
  models: [publishAudioModel(model, { of: 'inputs.text', default: null })],
  plan(body) {
    const calls = splitIntoChunks(body.inputs.map(toSpokenLine)).map((lines) =>
      planChunk(lines, body),
    );
    return {
      model: model.id,
      calls,
      assembly: calls.length > 1 ? 'concat_audio' : null,
    };
  },
  present(job) {
    const body = request.parse(job.request);
    const { stability, similarityBoost } = body;
    return {
      ...presentFile(job, getRecording(job)),
      title: body.title,
      model: job.model,
      dialogueLines: body.inputs.map(({ text, voiceId }, index) => ({
        line: index + 1,
        voice: voiceId,
        text,
      })),
      voicesUsed: [...new Set(body.inputs.map((line) => line.voiceId))],
      totalLines: body.inputs.length,
      totalTextLength: countLineCharacters(body.inputs),
      metadata: {
        stability,
        similarityBoost,
        chunks: splitIntoChunks(body.inputs.map(toSpokenLine)).length,
      },
    };
  },
});

function planChunk(lines: SpokenLine[], body: DialogueRequest): DraftCall {
  return {
    // The job fails if one chunk fails, because a dialogue with missing lines is useless.
    required: true,
    output: { medium: 'audio', format: null },
    meter: 'character',
    quantity: countLineCharacters(lines),
    unitPriceUsd: model.usd,
    routes: [
      {
        provider: model.provider,
        providerEndpoint: 'text-to-dialogue',
        input: {
          inputs: lines,
          model_id: model.id,
          settings: { stability: body.stability, similarity: body.similarityBoost },
        },
      },
    ],
  };
}

function toSpokenLine({ text, voiceId }: DialogueRequest['inputs'][number]): SpokenLine {
  return { text, voice_id: findProviderVoiceId(voiceId) };
}

function countLineCharacters(lines: readonly { text: string }[]): number {
  return lines.reduce((sum, { text }) => sum + countCharacters(text), 0);
}

/** Line of a dialogue in the provider's format. */
interface SpokenLine {
  text: string;
  voice_id: string;
  [field: string]: string;
}

const chunkCharactersMax = 2000;
const chunkVoicesMax = 10;

/**
 * Splits the lines into chunks, one for each provider call, in order. A chunk ends after a line. A
 * line longer than a chunk is split after a sentence or between words, in the same voice.
 */
export function splitIntoChunks(lines: readonly SpokenLine[]): SpokenLine[][] {
  const chunks: SpokenLine[][] = [];
  let chunk: SpokenLine[] = [];
  for (const line of lines.flatMap(splitLine)) {
    const characters = chunk.reduce((sum, { text }) => sum + text.length, line.text.length);
    const voiceIds = new Set([...chunk.map((other) => other.voice_id), line.voice_id]);
    if (chunk.length > 0 && (characters > chunkCharactersMax || voiceIds.size > chunkVoicesMax)) {
      chunks.push(chunk);
      chunk = [];
    }
    chunk.push(line);
  }
  return [...chunks, chunk];
}

function splitLine({ text, voice_id }: SpokenLine): SpokenLine[] {
  const pieces: SpokenLine[] = [];
  let remainingText = text;
  while (remainingText.length > chunkCharactersMax) {
    const end = findSplitIndex(remainingText);
    pieces.push({ text: remainingText.slice(0, end), voice_id });
    remainingText = remainingText.slice(end);
  }
  // A piece that is only white space contains nothing to speak.
  return [...pieces, { text: remainingText, voice_id }].filter((piece) => /\S/u.test(piece.text));
}

/** Returns the index at which to split a long text; never inside a surrogate pair. */
function findSplitIndex(text: string): number {
  const head = text.slice(0, chunkCharactersMax);
  const sentenceEnd = Math.max(
    ...[...head.matchAll(/[.!?…。！？]["'”’)]*\s*/gu)].map(
      (match) => match.index + match[0].length,
    ),
    0,
  );
  if (sentenceEnd > 0) return sentenceEnd;
  const lastSpace = head.search(/\s\S*$/u);
  if (lastSpace > 0) return lastSpace + 1;
  const lastUnit = head.charCodeAt(chunkCharactersMax - 1);
  return lastUnit >= 0xd800 && lastUnit < 0xdc00 ? chunkCharactersMax - 1 : chunkCharactersMax;
}
