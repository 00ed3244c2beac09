/** Composition plans of music_v1, with sections. The chunks of newer models are not supported. */
import { z } from 'zod';
import { seedOf } from '../media/media.ts';

/** Range of song lengths, in milliseconds. */
export const musicLengthMs = z.int().min(3000).max(600_000);

/** The model that makes music. */
export const musicModel = z.enum(['music_v1']).default('music_v1');

const partMs = z.int().min(3000).max(120_000);
const styles = z.array(z.string()).max(50);
const line = z.string().max(200);

/** A plan. */
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

/** A plan. */
export type Plan = z.output<typeof planSchema>;

/** Returns the length of a plan's song, in milliseconds. */
export function lengthMsOf(plan: Plan): number {
  return plan.sections.reduce((sum, { duration_ms: durationMs }) => sum + durationMs, 0);
}

/** Returns all texts of a plan, which may contain fault markers. */
export function wordsOf(plan: Plan): string {
  const parts = plan.sections.flatMap((section) => [
    ...section.positive_local_styles,
    ...section.lines,
  ]);
  return [...plan.positive_global_styles, ...parts].join('\n');
}

/** Returns the default length of a prompt's song: 20 to 60 seconds. */
export function presetLengthMs(prompt: string): number {
  return 20_000 + (seedOf(prompt) % 41) * 1000;
}

/** Makes a title of a prompt's first words. */
export function titleOf(prompt: string): string {
  const words = prompt.match(/[\p{L}\p{N}']+/gu) ?? [];
  const title = words.slice(0, 4).join(' ');
  return title === '' ? 'Untitled' : title.charAt(0).toUpperCase() + title.slice(1);
}

const usualPartMs = 20_000;
const names = ['Intro', 'Verse 1', 'Chorus', 'Verse 2', 'Bridge', 'Chorus', 'Outro'];

/** Splits a length into sections of an allowed length; the last one takes the remainder. */
function cut(lengthMs: number): number[] {
  const count = Math.max(1, Math.round(lengthMs / usualPartMs));
  const each = Math.floor(lengthMs / count);
  const parts = Array.from({ length: count }, () => each);
  parts[count - 1] = lengthMs - each * (count - 1);
  return parts;
}

function linesOf(name: string, prompt: string, isInstrumental: boolean): string[] {
  if (isInstrumental || name === 'Intro' || name === 'Outro') return [];
  const title = titleOf(prompt);
  return [`${title}, here we go`, `${name} of ${title}`, 'Sing it again', `${title}, oh`];
}

interface Composition {
  prompt: string;
  lengthMs: number;
  isInstrumental: boolean;
  source?: Plan | undefined;
}

/**
 * Makes a plan of the requested length for a prompt; the styles come from a source plan if there is
 * one.
 */
export function compose({ prompt, lengthMs, isInstrumental, source }: Composition): Plan {
  const asked = prompt.split(/[,.;\n]+/).map((part) => part.trim());
  const inherited = source?.positive_global_styles ?? [];
  const positive = [...asked.filter((part) => part !== ''), ...inherited].slice(0, 12);
  const withoutVoice = isInstrumental || /\binstrumental\b/i.test(prompt);
  return {
    positive_global_styles: positive,
    negative_global_styles: withoutVoice ? ['vocals'] : [],
    sections: cut(lengthMs).map((durationMs, index) => {
      const name = names[index % names.length] ?? 'Verse';
      return {
        section_name: name,
        positive_local_styles: [`${name.toLowerCase()} energy`],
        negative_local_styles: [],
        duration_ms: durationMs,
        lines: linesOf(name, prompt, withoutVoice),
      };
    }),
  };
}
