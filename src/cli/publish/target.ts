/** Where events go, and as whom: said by options, by the environment, or by the demo's file. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { origin } from '#config/env.ts';
import type { Config } from '#config/config.ts';
import type { DemoFile } from '../demo.ts';
import { UsageError, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

export type TargetOptions = { store?: string; url?: string; clientId?: string; clientSecretFile?: string };

type Outside = Pick<Terminal, 'env' | 'cwd'>;

export type PublishTarget = {
  /** Of the API, without a slash at its end. */
  url: string;
  storeId: string;
  clientId: string;
  clientSecret: string;
  versionHeader: string;
};

const readDemo = async (path: string): Promise<DemoFile | undefined> => {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DemoFile;
  } catch {
    // Who says everything else needs none, and is told below what is missing.
    return undefined;
  }
};

type Credentials = { client_id?: string | undefined; client_secret?: string | undefined };

/** A secret alone, or the object that `client create --json` prints. */
const readCredentials = async (path: string): Promise<Credentials> => {
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
};

/** An argument can be read by everybody on the machine, so a secret is never one. */
const credentialsOf = async (options: TargetOptions, { env, cwd }: Outside): Promise<Credentials> =>
  options.clientSecretFile === undefined
    ? { client_secret: env['HALCYON_CLIENT_SECRET'] || undefined }
    : readCredentials(resolve(cwd, options.clientSecretFile));

const needed = (value: string | undefined, missing: string): string => {
  if (value !== undefined) return value;
  throw new UserError(`${missing}; without a running demo (HALCYON_DATA/demo.json) nobody else says it`);
};

/** Throws a `UserError` that says what is missing. The demo's secret goes to nobody but the demo. */
export const resolveTarget = async (
  options: TargetOptions,
  terminal: Outside,
  config: Config,
): Promise<PublishTarget> => {
  const { env } = terminal;
  const demo = await readDemo(join(config.dataDir, 'demo.json'));
  const url = origin({ '--url': options.url ?? env['HALCYON_URL'] }, '--url', demo?.base_url ?? config.baseUrl);
  const said = await credentialsOf(options, terminal);
  const clientId = options.clientId ?? said.client_id ?? (env['HALCYON_CLIENT_ID'] || undefined);
  const known = clientId === undefined && url === demo?.base_url ? demo.platform : undefined;
  const storeId = options.store ?? (url === demo?.base_url ? String(demo.store_id) : undefined);
  if (storeId !== undefined && !/^[1-9][0-9]{0,15}$/.test(storeId))
    throw new UsageError('--store must be an id, a positive whole number');
  return {
    url,
    storeId: needed(storeId, 'Say which store: --store <id>'),
    clientId: needed(clientId ?? known?.client_id, 'Say as which client: --client-id, or HALCYON_CLIENT_ID'),
    clientSecret: needed(
      known?.client_secret ?? said.client_secret,
      'Say its secret: --client-secret-file, or HALCYON_CLIENT_SECRET',
    ),
    versionHeader: config.naming.versionHeader,
  };
};
