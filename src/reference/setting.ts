/** Names, addresses and limits from the configuration that the reference shows. */
import type { EventType } from '#http/relation.ts';
import type { Naming } from '#hypermedia/document.ts';

export type Setting = {
  naming: Naming;
  authUrl: string;
  versionHeader: string;
  webhookHeaderPrefix: string;
  rate: { requestsPerSecond: number; burstRequests: number };
  /** What each scope permits, in words. */
  scopes: Readonly<Record<string, string>>;
  /** The event catalogue. */
  eventTypes: readonly EventType[];
};
