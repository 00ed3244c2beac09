/**
 * The client of ElevenLabs, installed on first use: its 23,500 files are a third of all files that
 * `npm ci` would install.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { installNpm } from '../../../dev/stack/tools.ts';

type Sound = ReadableStream<Uint8Array>;
type Call<Result = Sound> = (request: object) => Promise<Result>;

/** A transcript of one channel. */
export interface Transcript {
  text: string;
  languageCode: string;
  audioDurationSecs: number;
  words: { text: string; type: string; start?: number; end?: number }[];
}

/** The methods of the client that tests call. */
export interface ElevenLabsClient {
  textToSpeech: {
    convert: (
      voice: string,
      request: object,
    ) => Promise<Sound> & {
      withRawResponse: () => Promise<{ data: Sound; rawResponse: { headers: Headers } }>;
    };
  };
  textToDialogue: { convert: Call };
  textToSoundEffects: { convert: Call };
  music: {
    compose: Call;
    composeDetailed: Call<{
      json: { compositionPlan: { sections: unknown[] }; songMetadata: { title: string } };
      audio: Buffer;
      filename: string;
    }>;
    compositionPlan: {
      create: Call<{ sections: { durationMs: number }[]; positiveGlobalStyles: string[] }>;
    };
  };
  speechToText: { convert: Call<Transcript> };
}

/** The package. */
export interface ElevenLabsPackage {
  ElevenLabsClient: new (options: {
    apiKey: string;
    baseUrl: string;
    maxRetries: number;
  }) => ElevenLabsClient;
  ElevenLabsError: new () => Error & { statusCode: number; body: unknown };
}

/** Returns the folder of the package's modules. */
export const elevenLabsModules = (): Promise<string> =>
  installNpm('elevenlabs', { dependencies: { '@elevenlabs/elevenlabs-js': '2.73.0' } });

/** Loads the package. */
export async function loadElevenLabs(): Promise<ElevenLabsPackage> {
  const require = createRequire(import.meta.url);
  return require(join(await elevenLabsModules(), '@elevenlabs/elevenlabs-js')) as ElevenLabsPackage;
}
