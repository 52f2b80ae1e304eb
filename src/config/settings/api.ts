/** Limits of the API, and configurable names for existing clients. */
import { unvalidatedText, whole, word, words } from './kind.ts';

export const API = {
  API_RATE_PER_SECOND: whole(
    100,
    [0, 100_000],
    'requests per second and grant, with a burst of twice as many; `0`: no limit. The [processes](#processes) of a supervisor count together, other processes separately',
  ),
  SEARCH_LIMIT_MS: whole(
    2_000,
    [50, 60_000],
    'time limit of each SQL statement of a request for a collection (some find and count the items, one reads the page); a request that needs longer is refused. A process runs one search per store at a time, with up to three more waiting, and in total at most as many as a third of its connections',
  ),
  RELATION_PREFIX: word('svc', 'prefix of link relations, for compatibility with existing clients'),
  VERSION_HEADER: word('SERVICE-API-VERSION', 'header with the version of the API'),
  WEBHOOK_HEADER_PREFIX: word('Service', 'prefix of the headers of a delivery: `Service-Webhook-Event`'),
  EVENTS_FILE: unvalidatedText(
    '–',
    'a path',
    'a JSON file of at most 1 MiB that declares [resources and events of your own](events-of-your-own.md). Every process needs the same file, and reads it when it starts',
  ),
  WEBHOOK_VERSIONS: words("values of a webhook's `version` that are accepted in addition to `2`"),
};
