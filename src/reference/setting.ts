/** Names, addresses and limits from the configuration that the reference shows. */
import type { EventType } from '#http/relation.ts';
import type { Naming } from '#hypermedia/document.ts';
import type { InstallCommands } from './packages.ts';

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
