/** All fal endpoints of the sandbox. A new model family is one import and one line here. */
import type { Endpoint } from '../endpoint.ts';
import { birefnetEndpoints } from './birefnet.ts';
import { gptImageEndpoints } from './gpt-image.ts';
import { grokEndpoints } from './grok.ts';
import { imagenEndpoints } from './imagen.ts';
import { klingEndpoints } from './kling.ts';
import { nanoBananaEndpoints } from './nano-banana.ts';
import { seedanceEndpoints } from './seedance.ts';
import { seedreamEndpoints } from './seedream.ts';
import { upscaleEndpoints } from './upscale.ts';
import { veoEndpoints } from './veo.ts';
import { videoToolEndpoints } from './video-tools.ts';

const all = [
  ...nanoBananaEndpoints,
  ...seedreamEndpoints,
  ...gptImageEndpoints,
  ...imagenEndpoints,
  ...grokEndpoints,
  ...upscaleEndpoints,
  ...birefnetEndpoints,
  ...veoEndpoints,
  ...klingEndpoints,
  ...seedanceEndpoints,
  ...videoToolEndpoints,
];

/** Endpoints by their ids. */
export const endpoints: ReadonlyMap<string, Endpoint> = new Map(
  all.map((endpoint) => [endpoint.id, endpoint]),
);
