/** Settings of commands that call a server, which may be remote, and of Node.js. `serve` reads none of them. */
import { NONE, said } from './kind.ts';

export const COMMANDS = {
  HALCYON_SERVER: said(
    'where you are logged in',
    'an address',
    'the API that `login`, `whoami`, `logout`, `listen` and `trigger` ask',
  ),
  HALCYON_URL: said("the demo's", 'an address', 'the API that `publish` sends to; without a demo that of `BASE_URL`'),
  HALCYON_CLIENT_ID: said("the demo's", 'the id of a trusted client', 'as whom `publish` comes'),
  HALCYON_CLIENT_SECRET: said("the demo's", 'its secret', 'what `publish` proves that by'),
  NODE_EXTRA_CA_CERTS: said(NONE, 'a file of certificates', 'further authorities that Node trusts, in every process'),
};
