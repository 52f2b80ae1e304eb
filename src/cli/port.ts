/** The remedy for a port that cannot be opened although it is free. */

/** Returns the remedy for an error code of Node. Ports below 1024 require root or a capability. */
export function adviceOnPort(code: string | undefined, setting: 'PORT' | 'METRICS_PORT'): string {
  return code === 'EACCES' || code === 'EPERM'
    ? `Set ${setting} to one from 1024 on, and put a proxy in front of it`
    : `Set HOST and ${setting} to an address of this machine`;
}
