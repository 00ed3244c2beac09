/** Commands `studio image|video|tts|music|sfx`, created from a table of endpoints. */
import { Command } from 'commander';
import { showEstimate } from '../estimates.ts';
import {
  collectAssignment,
  omitUndefined,
  parseNumber,
  collectValue,
  collectPair,
} from '../fields.ts';
import { submitJob } from '../jobs.ts';
import { openSession } from '../session.ts';

/** Command-line option that sets a field of the request. */
interface FieldOption {
  flags: string;
  help: string;
  /** Name of the field in the request. */
  field: string;
  /** Type of the value. `list` means that the option may be repeated. Defaults to text. */
  value?: 'number' | 'list';
}

/** Command for one Studio endpoint. */
interface EndpointCommand {
  name: string;
  help: string;
  /** Path of the endpoint below /api/v1/studio. */
  path: string;
  /** Request field that is set from the command's arguments. */
  textField: string;
  fields: FieldOption[];
  /** Returns default values for required request fields. */
  defaults?: (text: string) => Record<string, unknown>;
  /** True if the command waits by default until the job ends. */
  waits: boolean;
}

const model: FieldOption = {
  flags: '-m, --model <id>',
  help: 'id of a Studio model; `studio models --studio` lists them',
  field: 'model',
};
const seed: FieldOption = {
  flags: '--seed <n>',
  help: 'seed; the same seed gives similar output',
  field: 'seed',
  value: 'number',
};
const aspectRatio: FieldOption = {
  flags: '--aspect-ratio <w:h>',
  help: 'aspect ratio, for example 16:9',
  field: 'aspectRatio',
};
const resolution: FieldOption = {
  flags: '--resolution <size>',
  help: 'resolution, for example 2K or 720p; the allowed values depend on the model',
  field: 'resolution',
};
const duration: FieldOption = {
  flags: '--duration <seconds>',
  help: 'duration of the output in seconds',
  field: 'durationSeconds',
  value: 'number',
};

const endpointCommands: EndpointCommand[] = [
  {
    name: 'image',
    help: 'generate images from a prompt',
    path: '/image/generate',
    textField: 'prompt',
    waits: true,
    fields: [
      model,
      { flags: '-n, --count <n>', help: 'number of images', field: 'numImages', value: 'number' },
      aspectRatio,
      resolution,
      { flags: '--format <format>', help: 'file format: jpeg, png or webp', field: 'outputFormat' },
      {
        flags: '--quality <quality>',
        help: 'quality: auto, low, medium or high',
        field: 'quality',
      },
      {
        flags: '--image-url <url>',
        help: 'URL of a reference image (repeatable)',
        field: 'imageUrls',
        value: 'list',
      },
      seed,
    ],
  },
  {
    name: 'video',
    help: 'generate a video from a prompt; add --wait to wait until it is complete',
    path: '/video/generate',
    textField: 'prompt',
    waits: false,
    fields: [
      model,
      { flags: '--image-url <url>', help: 'URL of the first frame of a video', field: 'imageUrl' },
      duration,
      aspectRatio,
      resolution,
      seed,
    ],
  },
  {
    name: 'tts',
    help: 'turn text into speech',
    path: '/voiceover/generate',
    textField: 'text',
    waits: true,
    // The API requires a title. Without --title, it is the start of the text.
    defaults: (text) => ({ title: Array.from(text).slice(0, 60).join('') }),
    fields: [
      { flags: '--title <text>', help: 'title of the recording', field: 'title' },
      { flags: '--voice <name>', help: 'a name from GET /api/v1/studio/voices', field: 'voice' },
      {
        flags: '--stability <n>',
        help: 'stability of the voice, from 0 to 1',
        field: 'stability',
        value: 'number',
      },
      {
        flags: '--similarity <n>',
        help: 'similarity of the speech to the original voice, from 0 to 1',
        field: 'similarityBoost',
        value: 'number',
      },
    ],
  },
  {
    name: 'music',
    help: 'generate music from a prompt',
    path: '/music/generate',
    textField: 'prompt',
    waits: true,
    fields: [
      duration,
      { flags: '--mode <mode>', help: 'full (music and cover art) or audio-only', field: 'mode' },
      {
        flags: '--cover-prompt <text>',
        help: 'prompt for the cover art (only with --mode full)',
        field: 'coverPrompt',
      },
      { ...model, field: 'model_id' },
    ],
  },
  {
    name: 'sfx',
    help: 'generate a sound effect',
    path: '/sfx/generate',
    textField: 'prompt',
    waits: true,
    fields: [duration],
  },
];

interface StudioOptions extends Record<string, unknown> {
  out?: string;
  wait?: boolean;
  async?: boolean;
  estimate?: boolean;
  set?: Record<string, unknown>;
  metadata?: Record<string, string>;
  recipe?: string;
}

/** Creates the commands `studio image|video|tts|music|sfx`. */
export function createStudioCommands(): Command[] {
  return endpointCommands.map(createCommand);
}

function createCommand(endpoint: EndpointCommand): Command {
  const command = new Command(endpoint.name)
    .description(endpoint.help)
    .argument(`[${endpoint.textField}...]`, 'may be omitted if --recipe has it')
    .option('--recipe <name>', 'saved recipe, whose fields the other options replace')
    .option(
      '-o, --out <path>',
      'save the media to this file or directory; - is the standard output',
    )
    .option(
      '--metadata <name=value>',
      'a pair, for example team=marketing (repeatable)',
      collectPair,
    )
    .option('--set <field=value>', 'set any other request field (repeatable)', collectAssignment)
    .option('--estimate', 'show the price without starting a job');
  if (endpoint.waits) command.option('--async', 'print the job id without waiting for the job');
  else command.option('-w, --wait', 'wait until the job ends');
  const named = endpoint.fields.map((field) => {
    const option = command.createOption(field.flags, field.help);
    if (field.value === 'number') option.argParser(parseNumber);
    if (field.value === 'list') option.argParser(collectValue);
    command.addOption(option);
    return { name: option.attributeName(), field: field.field };
  });
  return command.action(async (args: string[], options: StudioOptions, self: Command) => {
    const text = args.join(' ');
    const { metadata, recipe } = options;
    if (text === '' && recipe === undefined) self.error(`error: missing ${endpoint.textField}`);
    const fields = Object.fromEntries(named.map(({ name, field }) => [field, options[name]]));
    const session = openSession(self);
    const body = {
      ...(text !== '' && { ...endpoint.defaults?.(text), [endpoint.textField]: text }),
      ...omitUndefined({ ...fields, metadata, recipe }),
      ...options.set,
    };
    if (options.estimate) {
      await showEstimate(session, `/studio${endpoint.path}`, { body });
      return;
    }
    const succeeded = await submitJob(session, {
      path: endpoint.path,
      body,
      wait: endpoint.waits ? !options.async : options.wait === true,
      out: options.out,
    });
    if (!succeeded) process.exitCode = 1;
  });
}
