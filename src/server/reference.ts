/** Collects the relations of all modules in the order of the reference. */
import { userChapter } from '#identity/accounts/api/relations.ts';
import { collections } from '#catalog/catalog.ts';
import { commerceChapter } from '#catalog/relations.ts';
import { deliveryDoc } from '#delivery/attempt/delivery-doc.ts';
import { eventChapter } from '#events/relations.ts';
import type { Chapter } from '#http/relation.ts';
import type { Route } from '#http/route.ts';
import { scopeDescriptions } from '#identity/oauth/endpoints.ts';
import { oauthChapter } from '#identity/oauth/relations.ts';
import { createReference, type Reference } from '#reference/reference.ts';
import { storeChapter } from '#stores/relations.ts';
import { webhookChapter } from '#webhooks/relations.ts';

type Settings = {
  baseUrl: string;
  authUrl: string;
  naming: { relationPrefix: string; versionHeader: string; webhookHeaderPrefix: string };
  rate: { requestsPerSecond: number; burstRequests: number };
};

export function chaptersOf({ baseUrl, authUrl }: Pick<Settings, 'baseUrl' | 'authUrl'>): readonly Chapter[] {
  return [
    storeChapter({ authUrl, collections }),
    webhookChapter,
    eventChapter,
    commerceChapter,
    userChapter,
    oauthChapter({ baseUrl, authUrl }),
  ];
}

/** `routes` is called lazily: the route table contains the reference itself. */
export function openReference(settings: Settings, routes: () => readonly Route[]): Reference {
  const { baseUrl, authUrl, rate } = settings;
  const { relationPrefix, ...naming } = settings.naming;
  return createReference({
    setting: {
      ...naming,
      naming: { baseUrl, relationPrefix },
      authUrl,
      rate,
      scopes: scopeDescriptions,
      deliveries: deliveryDoc(naming.webhookHeaderPrefix),
    },
    chapters: chaptersOf(settings),
    routes,
  });
}
