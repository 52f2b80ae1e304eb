/** What to do about a port that the machine does not give, and that nobody else has either. */

/** `code` is Node's. Ports below 1024 are for root, or for whom the machine lets by name. */
export const adviceOnPort = (code: string | undefined, setting: 'PORT' | 'METRICS_PORT'): string =>
  code === 'EACCES' || code === 'EPERM'
    ? `Set ${setting} to one from 1024 on, and put a proxy before it`
    : `Set HOST and ${setting} to an address of this machine`;
