/** Remedies for an unusable PostgreSQL, by the error code of Node, the driver or the server. */

const HOST = 'Check the host name in DATABASE_URL: it cannot be resolved';
const SILENT = 'Check host and port in DATABASE_URL, and whether a firewall blocks the connection';
const LOGIN = 'Check user and password in DATABASE_URL, and that pg_hba.conf of the server admits them';

const REMEDIES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Start the server, or check host and port in DATABASE_URL',
  ENOENT: 'Start the server, or set its host and port in DATABASE_URL',
  ENOTFOUND: HOST,
  EAI_AGAIN: HOST,
  ETIMEDOUT: SILENT,
  EHOSTUNREACH: SILENT,
  ENETUNREACH: SILENT,
  CONNECT_TIMEOUT: SILENT,
  '28000': LOGIN,
  '28P01': LOGIN,
  '3D000': 'Create the database (createdb), or check its name in DATABASE_URL',
  '53300': 'Raise max_connections of the server, or lower DATABASE_CONNECTIONS',
  '08P01': 'If DATABASE_URL points to a pooler, set DATABASE_DIRECT_URL to PostgreSQL itself',
  '57P03': 'Wait until the server has started, or check its log',
};

export function remedyOf(error: unknown): string {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  const known = code !== undefined && Object.hasOwn(REMEDIES, code) ? REMEDIES[code] : undefined;
  return known ?? 'Check DATABASE_URL and that the server runs';
}
