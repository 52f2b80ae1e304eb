/** Names, addresses and limits from the configuration that the reference shows. */
import type { Naming } from '#hypermedia/document.ts';

/** The requests of webhooks. */
export type SentRequests = {
  /** `resource`: the relation of the payload. */
  events: readonly { event: string; resource: string }[];
  headers: readonly { name: string; about: string; type: string; isOptional?: true }[];
  contentType: string;
  encryptedType: string;
};

export type Setting = {
  naming: Naming;
  authUrl: string;
  versionHeader: string;
  webhookHeaderPrefix: string;
  deliveries: SentRequests;
  rate: { requestsPerSecond: number; burstRequests: number };
  /** What each scope permits, in words. */
  scopes: Readonly<Record<string, string>>;
};
