/** A setting, or the file that it names, cannot be used. The message names it and says what to change. */
export class ConfigError extends Error {}
