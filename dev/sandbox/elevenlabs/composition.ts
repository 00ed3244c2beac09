/** Composition plans of the model music_v1, which consist of sections. The chunks of newer models are not supported. */
import { z } from 'zod';
import { deriveSeed } from '../media/media.ts';

/** Schema of a song's length in milliseconds. */
export const musicLengthMs = z.int().min(3000).max(600_000);

/** Schema of the model's name. */
export const musicModel = z.enum(['music_v1']).default('music_v1');

const partMs = z.int().min(3000).max(120_000);
const styles = z.array(z.string()).max(50);
const line = z.string().max(200);

/** Schema of a composition plan. */
export const planSchema = z.object({
  positive_global_styles: styles,
  negative_global_styles: styles,
  sections: z
    .array(
      z.object({
        section_name: z.string().min(1).max(100),
        positive_local_styles: styles,
        negative_local_styles: styles,
        duration_ms: partMs,
        lines: z.array(line).max(30),
      }),
    )
    .min(1),
});

/** Composition plan. */
export type Plan = z.output<typeof planSchema>;

/** Calculates the length of a plan's song in milliseconds. */
export function calculateLengthMs(plan: Plan): number {
  return plan.sections.reduce((sum, { duration_ms: durationMs }) => sum + durationMs, 0);
}

/** Returns all strings in a plan, which may contain fault markers. */
export function listTexts(plan: Plan): string {
  const parts = plan.sections.flatMap((section) => [
    ...section.positive_local_styles,
    ...section.lines,
  ]);
  return [...plan.positive_global_styles, ...parts].join('\n');
}

/** Returns the length for a prompt whose request has none: 20 to 60 seconds. */
export function defaultLengthMs(prompt: string): number {
  return 20_000 + (deriveSeed(prompt) % 41) * 1000;
}

/** Builds a title from the first words of a prompt. */
export function buildTitle(prompt: string): string {
  const words = prompt.match(/[\p{L}\p{N}']+/gu) ?? [];
  const title = words.slice(0, 4).join(' ');
  return title === '' ? 'Untitled' : title.charAt(0).toUpperCase() + title.slice(1);
}

const typicalSectionMs = 20_000;
const sectionNames = ['Intro', 'Verse 1', 'Chorus', 'Verse 2', 'Bridge', 'Chorus', 'Outro'];

/** Splits a song's length into sections of valid length; the last section takes the remainder. */
function splitLength(lengthMs: number): number[] {
  const count = Math.max(1, Math.round(lengthMs / typicalSectionMs));
  const sectionMs = Math.floor(lengthMs / count);
  const parts = Array.from({ length: count }, () => sectionMs);
  parts[count - 1] = lengthMs - sectionMs * (count - 1);
  return parts;
}

function writeLyrics(name: string, prompt: string, isInstrumental: boolean): string[] {
  if (isInstrumental || name === 'Intro' || name === 'Outro') return [];
  const title = buildTitle(prompt);
  return [`${title}, here we go`, `${name} of ${title}`, 'Sing it again', `${title}, oh`];
}

interface Composition {
  prompt: string;
  lengthMs: number;
  isInstrumental: boolean;
  source?: Plan | undefined;
}

/** Builds a plan with the requested length from a prompt, and the global styles of the source plan if there is one. */
export function compose({ prompt, lengthMs, isInstrumental, source }: Composition): Plan {
  const phrases = prompt.split(/[,.;\n]+/).map((part) => part.trim());
  const inherited = source?.positive_global_styles ?? [];
  const positive = [...phrases.filter((part) => part !== ''), ...inherited].slice(0, 12);
  const withoutVoice = isInstrumental || /\binstrumental\b/i.test(prompt);
  return {
    positive_global_styles: positive,
    negative_global_styles: withoutVoice ? ['vocals'] : [],
    sections: splitLength(lengthMs).map((durationMs, index) => {
      const name = sectionNames[index % sectionNames.length] ?? 'Verse';
      return {
        section_name: name,
        positive_local_styles: [`${name.toLowerCase()} energy`],
        negative_local_styles: [],
        duration_ms: durationMs,
        lines: writeLyrics(name, prompt, withoutVoice),
      };
    }),
  };
}
