/** Invalid configuration. The message is one line that names the variable. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** Creates the error for a variable with an unusable path, from the error of the file system. */
export function pathError(variable: string, cause: unknown): ConfigError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ConfigError(`configuration: ${variable} is wrong: ${reason}`, { cause });
}
