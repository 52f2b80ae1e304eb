/** What to do where PostgreSQL cannot be used, by what Node, the driver or the server says of it. */

const HOST = 'See the name of the host in DATABASE_URL: nobody knows it';
const SILENT = 'See host and port in DATABASE_URL, and whether a firewall stands between';
const WHO = 'See user and password in DATABASE_URL, and that pg_hba.conf of the server lets them in';

const REMEDIES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Start the server, or see host and port in DATABASE_URL',
  ENOENT: 'Start the server, or name its host and port in DATABASE_URL',
  ENOTFOUND: HOST,
  EAI_AGAIN: HOST,
  ETIMEDOUT: SILENT,
  EHOSTUNREACH: SILENT,
  ENETUNREACH: SILENT,
  CONNECT_TIMEOUT: SILENT,
  '28000': WHO,
  '28P01': WHO,
  '3D000': 'Make the database (createdb), or see its name in DATABASE_URL',
  '53300': 'Raise max_connections of the server, or lower DATABASE_CONNECTIONS',
  '08P01': 'Set DATABASE_DIRECT_URL to PostgreSQL itself, where DATABASE_URL leads to a pooler',
  '57P03': 'Wait until the server has started, or see its log',
};

export const remedyOf = (error: unknown): string => {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  const known = code !== undefined && Object.hasOwn(REMEDIES, code) ? REMEDIES[code] : undefined;
  return known ?? 'Check DATABASE_URL and that the server runs';
};
