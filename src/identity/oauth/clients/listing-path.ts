/** Returns the address of the public page of an app; `root` is the address or the path of the pages. */
export function listingPath(root: string, clientId: string): string {
  return `${root}/apps/${clientId}`;
}

/** Returns the address that starts the installation of an app. */
export function installPath(root: string, clientId: string): string {
  return `${listingPath(root, clientId)}/install`;
}
