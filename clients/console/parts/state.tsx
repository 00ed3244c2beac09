/** Shows states as colored words. */
import { toWords } from './names.ts';

const toneByState: Record<string, string> = {
  completed: 'good',
  delivered: 'good',
  charged: 'good',
  active: 'good',
  clean: 'good',
  failed: 'bad',
  page: 'bad',
  suspended: 'bad',
  gone: 'bad',
  'not clean': 'bad',
  canceled: 'mute',
  released: 'mute',
  waiting: 'mute',
  revoked: 'mute',
  refunded: 'mute',
};

/** Shows a state. States that are not listed above get the color of work in progress. */
export function State({ name }: { name: string }) {
  return <span className={`state ${toneByState[name] ?? 'busy'}`}>{toWords(name)}</span>;
}
