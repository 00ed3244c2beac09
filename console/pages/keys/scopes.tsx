/** The scopes of a new key, chosen by a preset or one by one. */
import type { Who } from '../../gateway/session.ts';

/** Scope of a key. */
export type Scope = Who['scopes'][number];

const scopeTexts: Record<Scope, string> = {
  chat: 'Chat',
  'studio:image': 'Generate and edit images',
  'studio:video': 'Generate and edit videos',
  'studio:audio': 'Generate speech, music and sounds; transcribe',
  'studio:read': 'Read jobs and their results',
  'models:read': 'List models',
  'storage:write': 'Upload files',
  'files:delete': 'Delete files and results',
  'usage:read': 'Read credits and usage',
  'keys:read': 'List API keys',
  'keys:write': 'Create and revoke API keys; manage webhook secret and notices',
};
const scopes = Object.keys(scopeTexts).filter((name): name is Scope => name in scopeTexts);

const presets = [
  {
    name: 'App',
    about: 'Calls models and reads its jobs',
    includes: (scope: Scope) => !scope.startsWith('keys:') && scope !== 'files:delete',
  },
  {
    name: 'Read-only',
    about: 'Reads jobs, models and usage; spends no credits',
    includes: (scope: Scope) => scope.endsWith(':read') && scope !== 'keys:read',
  },
  { name: 'Admin', about: 'All permissions, also API keys', includes: () => true },
] as const;

/** Returns the scopes of the preset App that the user's own key has. */
export const appScopes = (who: Who): Scope[] => who.scopes.filter(presets[0].includes);

interface ScopesProps {
  who: Who;
  chosen: readonly Scope[];
  choose: (chosen: readonly Scope[]) => void;
}

/** Shows the presets, and all scopes in a folded list. */
export function Scopes({ who, chosen, choose }: ScopesProps) {
  const isChosen = (of: readonly Scope[]): boolean =>
    of.length === chosen.length && of.every((scope) => chosen.includes(scope));
  return (
    <>
      <fieldset className="presets">
        <legend>Permissions</legend>
        {presets.map(({ name, about, includes }) => {
          const granted = who.scopes.filter(includes);
          return (
            <label key={name} className="preset">
              <input
                type="radio"
                name="preset"
                checked={isChosen(granted)}
                onChange={() => choose(granted)}
              />
              <span>
                {name} <span className="hint">{about}</span>
              </span>
            </label>
          );
        })}
      </fieldset>
      <details>
        <summary>
          Scopes <span className="hint">{chosen.length} selected</span>
        </summary>
        <div className="checks">
          {scopes.map((scope) => (
            <ScopeCheck key={scope} {...{ scope, who, chosen, choose }} />
          ))}
        </div>
      </details>
    </>
  );
}

function ScopeCheck({ scope, who, chosen, choose }: ScopesProps & { scope: Scope }) {
  const isGranted = who.scopes.includes(scope);
  const others = chosen.filter((each) => each !== scope);
  return (
    <label
      className="check"
      title={
        isGranted ? scope : 'Your own key does not have this scope, so the new key cannot have it.'
      }
    >
      <input
        type="checkbox"
        disabled={!isGranted}
        checked={chosen.includes(scope)}
        onChange={({ target }) => choose(target.checked ? [...others, scope] : others)}
      />
      {scopeTexts[scope]} <code className="hint">{scope}</code>
    </label>
  );
}
