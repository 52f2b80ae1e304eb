/** The route table: every address, one line each. */
import { showIcon } from '#http/assets.ts';
import { mcpAddressOf, resourceMetadataOf, rootOf } from '#http/root.ts';
import { endpoint, page, resource, type Route } from '#http/route.ts';
import { protocolProblem } from '#identity/oauth/oauth-errors.ts';
import { metadataOf } from '#identity/oauth/metadata.ts';
import { answerMcpProblem } from '#mcp/mcp-endpoint.ts';
import type { Reference } from '#reference/reference.ts';
import type { Handlers } from './compose.ts';

// Endpoints of OAuth: those that pages of any origin may call, and the others.
const ANY_ORIGIN = { cors: true, answerProblem: protocolProblem };
const OWN_ORIGIN = { cors: false, answerProblem: protocolProblem };

const referenceRoutes = (reference: Reference, api: string): Route[] => [
  resource(`${api}/docs`, { GET: reference.docs }, { isDocumentation: true }),
  resource(`${api}/docs/:page`, { GET: reference.docsPage }, { isDocumentation: true }),
  resource(`${api}/docs/receiving`, { GET: reference.receiving }, { isDocumentation: true }),
  page(`${api}/docs/:page.md`, { GET: reference.markdown.page }),
  page(`${api}/docs/packages/:file`, { GET: reference.packageFile }),
  resource(`${api}/docs/events`, { GET: reference.eventTypes }, { isDocumentation: true }),
  resource(`${api}/docs/events/:resource_type/:action`, { GET: reference.eventType }, { isDocumentation: true }),
  resource(`${api}/rels`, { GET: reference.relations }, { isDocumentation: true }),
  resource(`${api}/rels/:rel`, { GET: reference.relation }, { isDocumentation: true }),
  endpoint(`${api}/openapi.json`, { GET: reference.openApi }, { cors: true, answerProblem: reference.answerProblem }),
];

/** Programs request these at the origin, regardless of the path of AUTH_URL. */
const fixedRoutes = ({ fixedAddresses, reference }: Handlers): Route[] => [
  page('/favicon.ico', { GET: showIcon }),
  page('/llms.txt', { GET: reference.markdown.index }),
  page('/robots.txt', { GET: fixedAddresses.robots }),
  page('/.well-known/change-password', { GET: fixedAddresses.changePassword }),
  page('/.well-known/security.txt', { GET: fixedAddresses.securityText }),
];

function mcpRoutes({ mcp, reference }: Handlers, baseUrl: string): Route[] {
  if (mcp === undefined) return [];
  const { pathname } = new URL(resourceMetadataOf(mcpAddressOf(baseUrl)));
  const answerProblem = answerMcpProblem(reference.answerProblem, baseUrl);
  return [
    endpoint(`${rootOf(baseUrl)}/mcp`, { POST: mcp.serve }, { cors: false, answerProblem, needsToken: true }),
    endpoint(pathname, { GET: mcp.metadata }, ANY_ORIGIN),
  ];
}

function healthRoutes({ health, reference }: Handlers, api: string): Route[] {
  const { answerProblem } = reference;
  return [
    endpoint(`${api}/health/live`, { GET: health.live }, { cors: false, answerProblem }),
    endpoint(`${api}/health/ready`, { GET: health.ready }, { cors: false, answerProblem }),
  ];
}

const webhookRoutes = ({ webhooks, recoveries }: Pick<Handlers, 'webhooks' | 'recoveries'>, api: string): Route[] => [
  resource(`${api}/webhooks/:webhook_id`, {
    GET: webhooks.read,
    PATCH: webhooks.patch,
    PUT: webhooks.replace,
    DELETE: webhooks.remove,
  }),
  resource(`${api}/webhooks/:webhook_id/rotate_key`, { POST: webhooks.rotateKey }),
  resource(`${api}/webhooks/:webhook_id/test`, { POST: webhooks.test }),
  resource(`${api}/webhooks/:webhook_id/retry_pending`, { POST: webhooks.retryPending }),
  resource(`${api}/webhooks/:webhook_id/health`, { GET: webhooks.health }),
  resource(`${api}/webhooks/:webhook_id/stream`, { GET: webhooks.listen }),
  resource(`${api}/webhooks/:webhook_id/statuses`, { GET: webhooks.statuses }),
  resource(`${api}/webhooks/:webhook_id/statuses/:delivery_id`, { GET: webhooks.status }),
  resource(`${api}/webhooks/:webhook_id/statuses/:delivery_id/resend`, { POST: webhooks.resend }),
  resource(`${api}/webhooks/:webhook_id/statuses/:delivery_id/retry`, { POST: webhooks.retryDelivery }),
  resource(`${api}/webhooks/:webhook_id/statuses/:delivery_id/answer`, { POST: webhooks.answer }),
  resource(`${api}/webhooks/:webhook_id/logs`, { GET: webhooks.logs }),
  resource(`${api}/webhooks/:webhook_id/recover`, { POST: recoveries.recover }),
  resource(`${api}/webhooks/:webhook_id/recoveries`, { GET: recoveries.list }),
  resource(`${api}/webhooks/:webhook_id/recoveries/:recovery_id`, { GET: recoveries.read }),
  resource(`${api}/webhooks/:webhook_id/recoveries/:recovery_id/cancel`, { POST: recoveries.cancel }),
];

const clientRoutes = (of: Handlers, api: string, auth: string): Route[] => [
  resource(`${api}/users/:user_id/clients`, { GET: of.clients.listOfUser }),
  resource(`${api}/users/:user_id/grants`, { GET: of.grants.list }),
  resource(`${api}/grants/:grant_id`, { GET: of.grants.read, DELETE: of.grants.remove }),
  resource(`${api}/stores/:store_id/grants`, { GET: of.storeGrants.list }),
  resource(`${api}/stores/:store_id/members/:user_id/grants/:grant_id`, {
    GET: of.storeGrants.read,
    DELETE: of.storeGrants.remove,
  }),
  resource(`${api}/clients`, { GET: of.clients.list, POST: of.clients.create }),
  resource(`${api}/clients/:client_id/installs`, { GET: of.clients.installs }),
  resource(`${api}/clients/:client_id`, {
    GET: of.clients.read,
    PATCH: of.clients.patch,
    PUT: of.clients.replace,
    DELETE: of.clients.remove,
  }),
  endpoint(`${auth}/register`, { POST: of.register }, OWN_ORIGIN),
  endpoint(
    `${auth}/register/:client_id`,
    { GET: of.registration.read, PUT: of.registration.replace, DELETE: of.registration.remove },
    OWN_ORIGIN,
  ),
  page(`${auth}/clients/:client_id/logo`, { GET: of.logo }),
  page(`${auth}/apps/:client_id`, { GET: of.listing.show }),
  page(`${auth}/apps/:client_id/install`, { GET: of.listing.install }),
  page(`${auth}/account/connected/:grant_id/revoke`, { POST: of.revokeConnected }),
  page(`${auth}/account/clients`, { GET: of.ownClients.list, POST: of.ownClients.create }),
  page(`${auth}/account/sandbox-store`, { POST: of.ownClients.sandbox }),
  page(`${auth}/account/clients/new`, { GET: of.ownClients.blank }),
  page(`${auth}/account/clients/:client_id`, { GET: of.ownClients.show, POST: of.ownClients.change }),
  page(`${auth}/account/clients/:client_id/token`, { GET: of.ownToken.show, POST: of.ownToken.decide }),
  page(`${auth}/account/clients/:client_id/secret`, { POST: of.ownClients.rotate }),
  page(`${auth}/account/clients/:client_id/end-older-secret`, { POST: of.ownClients.endOlder }),
  page(`${auth}/account/clients/:client_id/webhook-key`, { POST: of.ownClients.replaceKey }),
  page(`${auth}/account/clients/:client_id/logo`, { POST: of.ownClients.setLogo }),
  page(`${auth}/account/clients/:client_id/remove-logo`, { POST: of.ownClients.removeLogo }),
  page(`${auth}/account/clients/:client_id/delete`, {
    GET: of.ownClients.remove.show,
    POST: of.ownClients.remove.submit,
  }),
];

/** The pages of people, in addition to those of Documents. */
const accountRoutes = (of: Handlers, auth: string): Route[] => [
  page(`${auth}/invitations/:token`, { GET: of.invitation.show, POST: of.invitation.submit }),
  page(`${auth}/portal`, { GET: of.portal.show, POST: of.portal.submit }),
  page(`${auth}/sign-in`, { GET: of.signIn.show, POST: of.signIn.submit }),
  page(`${auth}/sign-in/second-factor`, { POST: of.signIn.submitSecond }),
  page(`${auth}/sign-in/passkey`, { POST: of.signIn.submitPasskey }),
  page(`${auth}/sign-in/with/:provider`, { POST: of.externalSignIn.start }),
  page(`${auth}/sign-in/with/:provider/callback`, { GET: of.externalSignIn.callback }),
  page(`${auth}/sign-up`, { GET: of.signUp.request.show, POST: of.signUp.request.submit }),
  page(`${auth}/sign-up/confirm`, { GET: of.signUp.confirm.show, POST: of.signUp.confirm.submit }),
  page(`${auth}/sign-out`, { POST: of.signIn.signOut }),
  page(`${auth}/home`, { GET: of.startPage }),
  page(`${auth}/stores/:store_id/live`, { GET: of.live }),
  page(`${auth}/stores/:store_id/search`, { GET: of.search }),
  page(`${auth}/account`, { GET: of.account }),
  page(`${auth}/account/confirm`, { GET: of.confirmation, POST: of.confirmation }),
  page(`${auth}/account/security`, { GET: of.security.show }),
  page(`${auth}/account/security/passkeys`, { POST: of.security.addPasskey }),
  page(`${auth}/account/security/passkeys/:passkey_id/rename`, { POST: of.security.renamePasskey }),
  page(`${auth}/account/security/passkeys/:passkey_id/remove`, { POST: of.security.removePasskey }),
  page(`${auth}/account/security/app`, { GET: of.security.showApp, POST: of.security.setApp }),
  page(`${auth}/account/security/app/remove`, { POST: of.security.removeApp }),
  page(`${auth}/account/security/providers/:identity_id/unlink`, { POST: of.security.unlinkProvider }),
  page(`${auth}/account/security/recovery-codes`, { POST: of.security.renewCodes }),
  page(`${auth}/account/browsers/end-others`, { POST: of.browsers.endOthers }),
  page(`${auth}/account/browsers/:session_id/end`, { POST: of.browsers.end }),
  page(`${auth}/account/password`, { GET: of.password.change.show, POST: of.password.change.submit }),
  page(`${auth}/account/export`, { POST: of.leave.export }),
  page(`${auth}/account/erase`, { GET: of.leave.erase.show, POST: of.leave.erase.submit }),
  page(`${auth}/account/email`, { GET: of.email.change.show, POST: of.email.change.submit }),
  page(`${auth}/account/email/confirm`, { GET: of.email.confirm.show, POST: of.email.confirm.submit }),
  page(`${auth}/undo-email`, { GET: of.email.undo.show, POST: of.email.undo.submit }),
  page(`${auth}/forgot-password`, { GET: of.password.forgot.show, POST: of.password.forgot.submit }),
  page(`${auth}/reset-password`, { GET: of.password.reset.show, POST: of.password.reset.submit }),
];

const consoleRoutes = ({ console }: Handlers, auth: string): Route[] => [
  page(`${auth}/operator`, { GET: console.overview }),
  page(`${auth}/operator/audit`, { GET: console.audit }),
  page(`${auth}/operator/events`, { GET: console.readers }),
  page(`${auth}/operator/stores`, { GET: console.stores }),
  page(`${auth}/operator/stores/:store_id`, { GET: console.store, POST: console.actOnStore }),
  page(`${auth}/operator/apps`, { GET: console.apps }),
  page(`${auth}/operator/apps/:client_id`, { GET: console.app, POST: console.actOnApp }),
  page(`${auth}/operator/people`, { GET: console.people }),
  page(`${auth}/operator/people/:user_id`, { GET: console.person, POST: console.actOnPerson }),
];

const receivedRoutes = ({ receivedInvitations: received }: Handlers, api: string): Route[] => [
  resource(`${api}/users/:user_id/invitations`, { GET: received.list }),
  resource(`${api}/users/:user_id/invitations/:invitation_id`, { GET: received.read, DELETE: received.decline }),
  resource(`${api}/users/:user_id/invitations/:invitation_id/accept`, { POST: received.accept }),
];

const memberRoutes = (
  { members, awaitedMembers, invitations }: Pick<Handlers, 'members' | 'awaitedMembers' | 'invitations'>,
  api: string,
): Route[] => [
  resource(`${api}/stores/:store_id/members`, { GET: members.list, POST: members.add }),
  resource(`${api}/stores/:store_id/members/by_identity`, { DELETE: awaitedMembers.end }),
  resource(`${api}/stores/:store_id/awaited_members`, { GET: awaitedMembers.list }),
  resource(`${api}/stores/:store_id/members/:user_id`, {
    GET: members.read,
    PATCH: members.patch,
    DELETE: members.remove,
  }),
  resource(`${api}/stores/:store_id/invitations`, { GET: invitations.list, POST: invitations.create }),
  resource(`${api}/stores/:store_id/invitations/:invitation_id`, {
    GET: invitations.read,
    DELETE: invitations.revoke,
  }),
];

/** Returns all routes. `{base_url}` and `{auth_url}` may each have a path of their own, behind a proxy that keeps it. */
export function routesOf(handlers: Handlers, addresses: { baseUrl: string; authUrl: string }): readonly Route[] {
  const api = rootOf(addresses.baseUrl);
  const auth = rootOf(addresses.authUrl);
  const { users, stores, webhooks, events, commerce, authorize } = handlers;
  return [
    resource(api || '/', { GET: handlers.home }),
    resource(`${api}/users`, { GET: users.list, POST: users.create }),
    resource(`${api}/users/:user_id`, {
      GET: users.read,
      PATCH: users.patch,
      PUT: users.replace,
      DELETE: users.remove,
    }),
    resource(`${api}/users/:user_id/sandbox_store`, { POST: handlers.sandbox }),
    ...receivedRoutes(handlers, api),
    resource(`${api}/stores`, { GET: stores.list, POST: stores.create }),
    resource(`${api}/stores/:store_id`, { GET: stores.read, PATCH: stores.patch, DELETE: stores.remove }),
    ...memberRoutes(handlers, api),
    resource(`${api}/stores/:store_id/webhooks`, { GET: webhooks.list, POST: webhooks.create }),
    ...webhookRoutes(handlers, api),
    endpoint(
      `${api}/webhooks/:webhook_id/jwks.json`,
      { GET: handlers.publicKeys },
      { cors: true, answerProblem: handlers.reference.answerProblem },
    ),
    resource(`${api}/stores/:store_id/overview`, { GET: webhooks.overview }),
    resource(`${api}/stores/:store_id/events`, { GET: events.list, POST: events.publish }),
    resource(`${api}/stores/:store_id/events/:event_id`, { GET: events.read }),
    resource(`${api}/stores/:store_id/events/:event_id/payload`, { GET: events.payload }),
    resource(`${api}/stores/:store_id/events/:event_id/statuses`, { GET: handlers.eventStatuses }),
    resource(`${api}/stores/:store_id/links`, { POST: handlers.portal.make }),
    resource(`${api}/stores/:store_id/load`, { POST: handlers.load }),
    resource(`${api}/stores/:store_id/sample_events`, { POST: handlers.sampleEvents }),
    resource(`${api}/stores/:store_id/statuses`, { GET: handlers.storeStatuses }),
    resource(`${api}/stores/:store_id/:collection`, { GET: commerce.list }),
    resource(`${api}/stores/:store_id/:collection/:id`, { GET: commerce.read, DELETE: handlers.erasure }),
    resource(`${api}/stores/:store_id/:collection/:id/send_webhooks`, { POST: handlers.refeed }),
    resource(`${api}/stores/:store_id/:collection/:id/:relation`, { GET: commerce.relation }),
    ...referenceRoutes(handlers.reference, api),
    endpoint(`${api}/token`, { POST: handlers.token }, ANY_ORIGIN),
    endpoint(`${auth}/device_authorization`, { POST: handlers.deviceAuthorization }, ANY_ORIGIN),
    endpoint(`${auth}/revoke`, { POST: handlers.revoke }, ANY_ORIGIN),
    endpoint(`${auth}/introspect`, { POST: handlers.introspect }, OWN_ORIGIN),
    endpoint(new URL(metadataOf(addresses.authUrl)).pathname, { GET: handlers.metadata }, ANY_ORIGIN),
    endpoint(new URL(resourceMetadataOf(addresses.baseUrl)).pathname, { GET: handlers.resourceMetadata }, ANY_ORIGIN),
    ...mcpRoutes(handlers, addresses.baseUrl),
    ...healthRoutes(handlers, api),
    ...fixedRoutes(handlers),
    page(`${api}/assets/:file`, { GET: handlers.assets }),
    page(`${auth}/authorize`, { GET: authorize.show, POST: authorize.decide }),
    page(`${auth}/device`, { GET: handlers.device.show, POST: handlers.device.decide }),
    ...clientRoutes(handlers, api, auth),
    ...accountRoutes(handlers, auth),
    ...consoleRoutes(handlers, auth),
  ];
}
