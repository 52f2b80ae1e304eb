/** Settings of the commands that send requests to a server, and of Node itself. Server processes read none of them. */
import { NONE, unvalidatedText } from './kind.ts';

export const COMMANDS = {
  HALCYON_SERVER: unvalidatedText(
    'the server of the current login',
    'a URL',
    'API that `login`, `whoami`, `logout`, `listen` and `trigger` use',
  ),
  HALCYON_URL: unvalidatedText("the demo's", 'a URL', 'API that `publish` uses; default without a demo: `BASE_URL`'),
  HALCYON_CLIENT_ID: unvalidatedText(
    "the demo's",
    'the id of a trusted client',
    'client that `publish` authenticates as',
  ),
  HALCYON_CLIENT_SECRET: unvalidatedText("the demo's", 'its secret', 'secret that `publish` authenticates with'),
  NODE_EXTRA_CA_CERTS: unvalidatedText(
    NONE,
    'a file of certificates',
    'additional certificate authorities that Node trusts, in every process',
  ),
};
