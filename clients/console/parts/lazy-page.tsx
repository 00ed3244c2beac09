/** Pages and dialogs whose code is loaded when they are first shown. */
import { lazy, type ComponentType } from 'react';

/** Error of a file of the console that cannot be loaded, for example after an upgrade. */
export class LoadError extends Error {
  override readonly name = 'LoadError';
  /** Forgets the failure, so that the file is requested again. */
  readonly forget: () => void;

  constructor(cause: unknown, forget: () => void) {
    super('A file of the console could not be loaded.', { cause });
    this.forget = forget;
  }
}

/** Delay before a file is requested again, in milliseconds. */
const retryMs = 1000;
/** Time after which the console may reload itself again, in milliseconds. */
const reloadAgainMs = 60_000;
const reloadedAt = 'reloaded at';

/**
 * Loads a module. If that fails twice, the file may belong to an earlier release: the console reloads
 * itself, at most once a minute. Drafts and chats are kept.
 */
async function loadModule<Module>(load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch {
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
  try {
    return await load();
  } catch (error) {
    const lastMs = Number(sessionStorage.getItem(reloadedAt) ?? 0);
    if (!navigator.onLine || Date.now() - lastMs < reloadAgainMs) throw error;
    sessionStorage.setItem(reloadedAt, String(Date.now()));
    location.reload();
    // The page is about to be replaced.
    return new Promise(() => undefined);
  }
}

/** Like `lazy` of React, but throws a `LoadError`, after which the file can be requested again. */
export function lazyPage<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
): ComponentType<Props> {
  const createPage = (): ComponentType<Props> =>
    lazy(async () => {
      try {
        return await loadModule(load);
      } catch (error) {
        throw new LoadError(error, () => {
          Page = createPage();
        });
      }
    });
  let Page = createPage();
  return (props: Props) => <Page {...props} />;
}
