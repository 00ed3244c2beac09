/**
 * Voices that callers can select (spec §4.8): 23 premade voices of ElevenLabs, named by lowercase
 * first names. Several public code bases agree on the voice ids (docs/providers.md).
 */
import { assert } from '../../domain/errors.ts';

/** Voice that callers can select. */
export interface Voice {
  name: string;
  gender: 'female' | 'male' | 'neutral';
  /** Id of the voice at the provider. */
  providerVoiceId: string;
}

/** All voices, in alphabetical order. */
export const voices: readonly Voice[] = [
  { name: 'adam', gender: 'male', providerVoiceId: 'pNInz6obpgDQGcFmaJgB' },
  { name: 'alice', gender: 'female', providerVoiceId: 'Xb7hH8MSUJpSbSDYk0k2' },
  { name: 'antoni', gender: 'male', providerVoiceId: 'ErXwobaYiN019PkySvjV' },
  { name: 'aria', gender: 'female', providerVoiceId: '9BWtsMINqrJLrRacOk9x' },
  { name: 'bill', gender: 'male', providerVoiceId: 'pqHfZKP75CvOlQylNhV4' },
  { name: 'brian', gender: 'male', providerVoiceId: 'nPczCjzI2devNBz1zQrb' },
  { name: 'callum', gender: 'male', providerVoiceId: 'N2lVS1w4EtoT3dr4eOWO' },
  { name: 'charlie', gender: 'male', providerVoiceId: 'IKne3meq5aSn9XLyUdCD' },
  { name: 'charlotte', gender: 'female', providerVoiceId: 'XB0fDUnXU5powFXDhCwa' },
  { name: 'chris', gender: 'male', providerVoiceId: 'iP95p4xoKVk53GoZ742B' },
  { name: 'daniel', gender: 'male', providerVoiceId: 'onwK4e9ZLuTAKqWW03F9' },
  { name: 'eric', gender: 'male', providerVoiceId: 'cjVigY5qzO86Huf0OWal' },
  { name: 'george', gender: 'male', providerVoiceId: 'JBFqnCBsd6RMkjVDRZzb' },
  { name: 'jessica', gender: 'female', providerVoiceId: 'cgSgspJ2msm6clMCkdW9' },
  { name: 'laura', gender: 'female', providerVoiceId: 'FGY2WhTYpPnrIDTdsKH5' },
  { name: 'liam', gender: 'male', providerVoiceId: 'TX3LPaxmHKxFdv7VOQHJ' },
  { name: 'lily', gender: 'female', providerVoiceId: 'pFZP5JQG7iQjIQuC4Bku' },
  { name: 'matilda', gender: 'female', providerVoiceId: 'XrExE9yKIg1WjnnlVkGX' },
  { name: 'rachel', gender: 'female', providerVoiceId: '21m00Tcm4TlvDq8ikWAM' },
  { name: 'river', gender: 'neutral', providerVoiceId: 'SAz9YHcvj6GT2YYXdXww' },
  { name: 'roger', gender: 'male', providerVoiceId: 'CwhRBWXzGAHq8TQ4Fs17' },
  { name: 'sarah', gender: 'female', providerVoiceId: 'EXAVITQu4vr4xnSDxMaL' },
  { name: 'will', gender: 'male', providerVoiceId: 'bIHbv24MWmeRgasZH58o' },
];

/** Default voice. */
export const defaultVoiceName = 'rachel';

/** Returns the provider's id of a voice. */
export function findProviderVoiceId(name: string): string {
  const voice = voices.find((known) => known.name === name);
  assert(voice, 'no voice has this name');
  return voice.providerVoiceId;
}
