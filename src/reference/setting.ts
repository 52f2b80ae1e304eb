/** What the operator has set of names, addresses and limits: everything that the reference spells out. */
import type { Naming } from '#hypermedia/document.ts';

export type Setting = {
  naming: Naming;
  authUrl: string;
  versionHeader: string;
  webhookHeaderPrefix: string;
  rate: { requestsPerSecond: number; burstRequests: number };
  /** What each scope lets an app do, in words. */
  scopes: Readonly<Record<string, string>>;
};
