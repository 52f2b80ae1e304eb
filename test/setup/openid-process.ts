/** The program of a real OpenID provider: oidc-provider, with its own pages. A person enters their e-mail address as the login. */
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';

const [, , clientId = '', clientSecret = '', redirectUri = ''] = process.argv;

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  findAccount: (_context, id) => {
    return { accountId: id, claims: () => ({ sub: id, email: id, email_verified: !id.startsWith('unverified') }) };
  },
  jwks: { keys: [generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })] },
  cookies: { keys: ['of this test'] },
  pkce: { required: () => true },
});
const handle = provider.callback();
server.on('request', (request, response) => void handle(request, response));
process.on('disconnect', () => process.exit(0));
process.send?.(issuer);
