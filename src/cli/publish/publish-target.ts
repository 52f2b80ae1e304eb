/** Determines server, store and client from options, the environment or the demo file. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { publicAddress, readSecret } from '#config/env.ts';
import type { Config } from '#config/config.ts';
import type { DemoFile } from '../demo.ts';
import { UsageError, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

export type ServerOptions = { url?: string; clientId?: string; clientSecretFile?: string };
export type TargetOptions = ServerOptions & { store?: string };

type Environment = Pick<Terminal, 'env' | 'cwd'>;

type PublishServer = {
  /** The address of the API without a trailing slash. */
  url: string;
  clientId: string;
  clientSecret: string;
  versionHeader: string;
};

export type PublishTarget = PublishServer & { storeId: string };

async function readDemo(path: string): Promise<DemoFile | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DemoFile;
  } catch {
    // The demo file is optional; missing values are reported below.
    return undefined;
  }
}

type Credentials = { client_id?: string | undefined; client_secret?: string | undefined };

/** Reads a file with a secret, or with the output of `client create --json`. */
async function readCredentials(path: string): Promise<Credentials> {
  try {
    const text = (await readFile(path, 'utf8')).trim();
    if (!text.startsWith('{')) return { client_secret: text };
    const { client_id, client_secret } = JSON.parse(text) as Record<string, unknown>;
    if (typeof client_id !== 'string' || typeof client_secret !== 'string')
      throw new Error(`${path} has no client_id and client_secret`);
    return { client_id, client_secret };
  } catch (error) {
    throw new UserError(`--client-secret-file: ${(error as Error).message}`);
  }
}

/** Reads the secret from a file or the environment, because arguments are visible to all users of the machine. */
const credentialsOf = async (options: TargetOptions, { env, cwd }: Environment): Promise<Credentials> =>
  options.clientSecretFile === undefined
    ? { client_secret: readSecret(env, 'HALCYON_CLIENT_SECRET') }
    : readCredentials(resolve(cwd, options.clientSecretFile));

function requireValue(value: string | undefined, missing: string): string {
  if (value !== undefined) return value;
  throw new UserError(`${missing}; there is no default without a running demo (HALCYON_DATA/demo.json)`);
}

/**
 * Returns the server and the client; throws a `UserError` that names a missing value. The demo's secret is only sent to the demo, whose
 * store is `demoStoreId`.
 */
export async function resolveServer(
  options: ServerOptions,
  terminal: Environment,
  config: Config,
): Promise<PublishServer & { demoStoreId: string | undefined }> {
  const { env } = terminal;
  const demo = await readDemo(join(config.dataDir, 'demo.json'));
  const given = publicAddress({ '--url': options.url ?? env['HALCYON_URL'] }, '--url');
  const url = given ?? demo?.base_url ?? config.baseUrl;
  const credentials = await credentialsOf(options, terminal);
  const clientId = options.clientId ?? credentials.client_id ?? (env['HALCYON_CLIENT_ID'] || undefined);
  const ofDemo = url === demo?.base_url ? demo : undefined;
  const demoClient = clientId === undefined ? ofDemo?.platform : undefined;
  return {
    url,
    clientId: requireValue(clientId ?? demoClient?.client_id, 'Set the client: --client-id, or HALCYON_CLIENT_ID'),
    clientSecret: requireValue(
      demoClient?.client_secret ?? credentials.client_secret,
      'Set the client secret: --client-secret-file, or HALCYON_CLIENT_SECRET',
    ),
    versionHeader: config.naming.versionHeader,
    demoStoreId: ofDemo === undefined ? undefined : String(ofDemo.store_id),
  };
}

/** Returns the server, the client and the store. */
export async function resolveTarget(
  options: TargetOptions,
  terminal: Environment,
  config: Config,
): Promise<PublishTarget> {
  const { demoStoreId, ...server } = await resolveServer(options, terminal, config);
  const storeId = options.store ?? demoStoreId;
  if (storeId !== undefined && !/^[1-9][0-9]{0,15}$/.test(storeId))
    throw new UsageError('--store must be an id, a positive whole number');
  return { ...server, storeId: requireValue(storeId, 'Set the store: --store <id>') };
}
