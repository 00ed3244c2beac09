/** Selects the scopes of a new key, by preset or one by one. */
import type { SessionKey } from '../../gateway/session.ts';

/** Scope of a key. */
export type Scope = SessionKey['scopes'][number];

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
  'keys:write': 'Create and revoke API keys; manage webhook endpoints, secret and notices',
};
const scopes = Object.keys(scopeTexts).filter((name): name is Scope => name in scopeTexts);

const presets = [
  {
    name: 'App',
    about: 'Can call models, upload files and read jobs',
    includes: (scope: Scope) => !scope.startsWith('keys:') && scope !== 'files:delete',
  },
  {
    name: 'Read-only',
    about: 'Can read jobs, models and usage; cannot spend credits',
    includes: (scope: Scope) => scope.endsWith(':read') && scope !== 'keys:read',
  },
  { name: 'Admin', about: 'All permissions of your own key', includes: () => true },
] as const;

/** Returns the scopes of the preset "App" that the session's key also has. */
export const appScopes = (sessionKey: SessionKey): Scope[] =>
  sessionKey.scopes.filter(presets[0].includes);

interface ScopeChoiceProps {
  sessionKey: SessionKey;
  selected: readonly Scope[];
  select: (selected: Scope[]) => void;
}

/** Shows presets of scopes, and a collapsible list of all scopes. */
export function ScopeChoice({ sessionKey, selected, select }: ScopeChoiceProps) {
  const isSelected = (presetScopes: readonly Scope[]): boolean =>
    presetScopes.length === selected.length &&
    presetScopes.every((scope) => selected.includes(scope));
  return (
    <>
      <fieldset className="presets">
        <legend>Permissions</legend>
        {presets.map(({ name, about, includes }) => {
          const presetScopes = sessionKey.scopes.filter(includes);
          return (
            <label key={name} className="preset">
              <input
                type="radio"
                name="preset"
                checked={isSelected(presetScopes)}
                onChange={() => select(presetScopes)}
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
          Scopes <span className="hint">{selected.length} selected</span>
        </summary>
        <div className="checks">
          {scopes.map((scope) => (
            <ScopeCheck key={scope} {...{ scope, sessionKey, selected, select }} />
          ))}
        </div>
      </details>
    </>
  );
}

function ScopeCheck({ scope, sessionKey, selected, select }: ScopeChoiceProps & { scope: Scope }) {
  const isGranted = sessionKey.scopes.includes(scope);
  const otherScopes = selected.filter((name) => name !== scope);
  return (
    <label
      className="check"
      title={
        isGranted ? scope : 'Your own key does not have this scope, so a new key cannot have it.'
      }
    >
      <input
        type="checkbox"
        disabled={!isGranted}
        checked={selected.includes(scope)}
        onChange={({ target }) => select(target.checked ? [...otherScopes, scope] : otherScopes)}
      />
      {scopeTexts[scope]} <code className="hint">{scope}</code>
    </label>
  );
}
