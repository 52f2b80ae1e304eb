/** Limits of the API, and configurable names for existing clients. */
import { whole, word, words } from './kind.ts';

export const API = {
  API_RATE_PER_SECOND: whole(
    100,
    [0, 100_000],
    'requests per second and grant, with a burst of twice as many; `0`: no limit. Each process counts separately',
  ),
  SEARCH_LIMIT_MS: whole(
    2_000,
    [50, 60_000],
    'time limit of each SQL statement of a collection request (one reads the page, one counts); a longer search is refused. A process runs one search per store at a time (ten more wait), and in total as many as a third of its connections',
  ),
  RELATION_PREFIX: word('svc', 'prefix of link relations, for compatibility with existing clients'),
  VERSION_HEADER: word('SERVICE-API-VERSION', 'header with the version of the API'),
  WEBHOOK_HEADER_PREFIX: word('Service', 'prefix of the headers of a delivery: `Service-Webhook-Event`'),
  WEBHOOK_VERSIONS: words("values of a webhook's `version` that are accepted in addition to `2`"),
};
