/** Limits of the API, and configurable names for existing clients. */
import { whole, word, words } from './kind.ts';

export const API = {
  API_RATE_PER_SECOND: whole(
    100,
    [0, 100_000],
    'requests a second that each grant may make, twice as many at once; `0`: no limit. Each process counts for itself',
  ),
  SEARCH_LIMIT_MS: whole(
    2_000,
    [50, 60_000],
    'how long each statement of a search may take (finding a page of a collection, counting it); what takes longer is refused. A process searches each store once at a time (ten more wait), and as many stores as a third of its connections',
  ),
  RELATION_PREFIX: word('svc', 'the prefix of link relations, as existing clients know it'),
  VERSION_HEADER: word('SERVICE-API-VERSION', 'the header that names the version of the API'),
  WEBHOOK_HEADER_PREFIX: word('Service', 'what the headers of a delivery begin with: `Service-Webhook-Event`'),
  WEBHOOK_VERSIONS: words("further values of the webhook's `version`, beside `2`"),
};
