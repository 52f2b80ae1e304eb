/** What the reference shows of the configuration: names, addresses and limits, and how to install the packages of Halcyon. */
import type { EventType } from '#http/relation.ts';
import type { Naming } from '#hypermedia/document.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { notFound } from '#core/problem.ts';
import type { RawHandler } from '#http/route.ts';

/** The requests of webhooks. */
export type SentRequests = {
  headers: readonly { name: string; about: string; type: string; isOptional?: true }[];
  contentType: string;
  encryptedType: string;
};

export type Setting = {
  naming: Naming;
  authUrl: string;
  versionHeader: string;
  webhookHeaderPrefix: string;
  sentRequests: SentRequests;
  /** How to install the receiver. */
  installCommands: InstallCommands;
  /** The name that endpoints have to allow before a webhook gets their url; undefined if the operator does not require it. */
  handshakeOrigin: string | undefined;
  /** The endpoint for agents; undefined unless the operator has switched it on. */
  mcpAddress: string | undefined;
  rate: { requestsPerSecond: number; burstRequests: number };
  /** The time limit of a search for one page of a collection. */
  searchSeconds: number;
  /** What each scope permits, in words. */
  scopes: Readonly<Record<string, string>>;
  deliveries: {
    /** The time limit of an attempt. */
    timeoutSeconds: number;
    /** By retry profile: the waits before the second attempt and each later one. */
    retrySeconds: Readonly<Record<string, readonly number[]>>;
    disableAfterFailures: number;
    /** By retry profile: the minimum time since the first of these failures. */
    disableAfterSeconds: Readonly<Record<string, number>>;
    retentionDays: number;
  };
  /** The event catalogue. */
  eventTypes: readonly EventType[];
};

/**
 * The packages of Halcyon for other programs. No public registry has them, so a server offers those of its own version, as
 * `npm run packages` has built them, or names the registry of its operator.
 */
const NPM = ['halcyon-publisher', 'halcyon-receiver'];
const PYTHON = ['halcyon_publisher', 'halcyon_receiver'];

export type PackageSources = {
  /** What `npm run packages` writes. */
  dir: string;
  version: string;
  baseUrl: string;
  npmRegistry: string | undefined;
  pythonIndex: string | undefined;
};

/** The commands that install the receiver; undefined without a registry and a built package. */
export type InstallCommands = { npm: string | undefined; python: string | undefined };

function readIfBuilt(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Returns the handler of `/docs/packages/:file`, and how to install the receiver. */
export function openPackages({ dir, version, baseUrl, npmRegistry, pythonIndex }: PackageSources): {
  installCommands: InstallCommands;
  file: RawHandler;
} {
  const wheel = (name: string): string => `${name}-${version}-py3-none-any.whl`;
  const tarball = (name: string): string => `${name}-${version}.tgz`;
  const names = [...NPM.map(tarball), ...PYTHON.map(wheel)];
  const files = new Map(names.map((name) => [name, readIfBuilt(join(dir, name))]));
  const installFile = (command: string, name: string): string | undefined =>
    files.get(name) && `${command} ${baseUrl}/docs/packages/${name}`;
  return {
    installCommands: {
      npm:
        npmRegistry === undefined
          ? installFile('npm install', tarball('halcyon-receiver'))
          : // Kept in the project, so that no later command asks the public registry.
            `npm config set --location=project @halcyon:registry=${npmRegistry} && npm install @halcyon/receiver`,
      // No second index beside it: pip would take the newest version of both, even a stranger's.
      python:
        pythonIndex === undefined
          ? installFile('pip install', wheel('halcyon_receiver'))
          : `pip install --index-url ${pythonIndex} halcyon-receiver`,
    },
    file: async ({ params }) => {
      const name = params['file'] ?? '';
      const body = files.get(name);
      if (body === undefined) throw notFound('file');
      const type = name.endsWith('.whl') ? 'application/zip' : 'application/gzip';
      return { status: 200, headers: { 'Content-Type': type, 'Cache-Control': 'no-cache' }, body };
    },
  };
}
