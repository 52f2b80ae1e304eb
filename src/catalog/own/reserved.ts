/** Names that the resources and relations of the operator cannot have; test/journeys/own-events.test.ts compares them with the API. */

const words = (text: string): string[] => text.trim().split(/\s+/);

const RESERVED: ReadonlySet<string> = new Set([
  // Relations of the API that are not in the catalog, and segments of addresses below a store.
  ...words(`
    accept answer authorize cancel client clients docs error errors event event_type event_types events failure failures grant grants
    health healths home install installs invitation invitations listen listing live log logs member members openapi options overview
    passing payload preceding received_invitation receiving recover recoveries recovery register relation relations request resend resource retry
    retry_pending rotate_key sample_events sandbox_store send_webhooks status statuses store stores test token user users webhook webhooks`),
  // Relations that IANA registers, which have no prefix; schemas of /openapi.json; types of scripts/payload-types.ts.
  ...words('curies first last next prev related self'),
  'link',
  ...words('embedded payloads properties webhook_event'),
  // A member of every JavaScript object.
  'constructor',
]);

/** Names that Halcyon makes: of schemas in /openapi.json, and of the scope `store_id_…`. */
const MADE = /^(?:post|put|patch|store_id)_|_(?:selection|results|entity|resource)$/;

export function isReserved(name: string): boolean {
  return RESERVED.has(name) || MADE.test(name);
}
