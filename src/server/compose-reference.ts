/** Collects the relations of all modules in the order of the reference. */
import { userChapter } from '#identity/accounts/users-api.ts';
import { collections } from '#catalog/catalog.ts';
import { eventTypes } from '#catalog/event-types.ts';
import { commerceChapter } from '#catalog/resource-relations.ts';
import { deliveryDoc } from '#delivery/attempt/attempt.ts';
import type { RuntimeConfig } from '#runtime/runtime.ts';
import { gapsMs } from '#delivery/policy/policy.ts';
import { eventChapter } from '#events/event-relations.ts';
import { mcpAddressOf } from '#http/root.ts';
import type { Chapter } from '#http/relation.ts';
import { scopeDescriptions } from '#identity/oauth/endpoints.ts';
import { oauthChapter } from '#identity/oauth/oauth-relations.ts';
import { mcpChapter } from '#mcp/mcp-endpoint.ts';
import { type Setting, openPackages, type InstallCommands } from '#reference/setting.ts';
import { createReference, type Reference, type ReferenceDeps } from '#reference/reference.ts';
import { storeChapter } from '#stores/store-relations.ts';
import { webhookChapter } from '#webhooks/webhook-relations.ts';
import { VERSION } from './version.ts';

export function chaptersOf({ baseUrl, authUrl }: Pick<RuntimeConfig, 'baseUrl' | 'authUrl'>): readonly Chapter[] {
  return [
    storeChapter({ authUrl, collections: collections() }),
    webhookChapter({ baseUrl }),
    eventChapter,
    commerceChapter(),
    userChapter,
    oauthChapter({ baseUrl, authUrl }),
  ];
}

const deliveriesOf = ({ delivery, database }: Pick<RuntimeConfig, 'delivery' | 'database'>): Setting['deliveries'] => ({
  timeoutSeconds: delivery.exchangeTimeoutMs / 1_000,
  retrySeconds: Object.fromEntries(
    Object.entries(gapsMs).map(([profile, gaps]) => [profile, gaps.map((ms) => ms / 1_000)]),
  ),
  disableAfterFailures: delivery.deactivateAfterFailures,
  disableAfterSeconds: delivery.deactivateAfterSeconds,
  retentionDays: database.retentionDays,
});

export function settingOf(settings: RuntimeConfig, installCommands: InstallCommands): Setting {
  const { baseUrl, authUrl, rate } = settings;
  const { handshakeOrigin } = settings.webhooks;
  const { relationPrefix, ...names } = settings.naming;
  const naming = { baseUrl, relationPrefix };
  return {
    ...names,
    naming,
    authUrl,
    rate,
    searchSeconds: settings.database.searchLimitMs / 1_000,
    scopes: scopeDescriptions(),
    deliveries: deliveriesOf(settings),
    sentRequests: deliveryDoc(names.webhookHeaderPrefix, { isOriginSent: handshakeOrigin !== undefined }),
    installCommands,
    handshakeOrigin,
    mcpAddress: settings.mcp ? mcpAddressOf(baseUrl) : undefined,
    eventTypes: eventTypes(naming),
  };
}

/** `routes` is called lazily: the route table contains the reference itself. */
export function openReference(settings: RuntimeConfig, deps: Pick<ReferenceDeps, 'testableOf' | 'routes'>): Reference {
  const { installCommands, file } = openPackages({ ...settings.packages, baseUrl: settings.baseUrl, version: VERSION });
  const setting = settingOf(settings, installCommands);
  const chapters = [...chaptersOf(settings), ...(settings.mcp ? [mcpChapter(settings.baseUrl)] : [])];
  return createReference({ setting, packageFile: file, chapters, ...deps });
}
