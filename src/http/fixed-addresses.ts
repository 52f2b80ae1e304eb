/** What programs look for at fixed addresses of any site: crawlers, password managers, and people who have found a vulnerability. */
import { notFound } from '#core/problem.ts';
import { redirectAnswer } from './answers.ts';
import { type RawHandler, type RawResponse } from './route.ts';
import { rootOf } from './root.ts';

/** A contact that is no longer read should not be relied on for long (RFC 9116 §2.5.5). */
const SECURITY_TEXT_EXPIRES_MS = 30 * 86_400_000;

const plainText = (lines: readonly string[]): RawResponse => ({
  status: 200,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'public, max-age=86400' },
  body: `${lines.join('\n')}\n`,
});

type Addresses = { baseUrl: string; authUrl: string };

/** `securityContact`: an address for reports of vulnerabilities; undefined if the operator has set none. */
export function createFixedAddresses(
  { baseUrl, authUrl }: Addresses,
  securityContact: string | undefined,
): Record<'changePassword' | 'robots' | 'securityText', RawHandler> {
  const [api, auth] = [rootOf(baseUrl), rootOf(authUrl)];
  return {
    changePassword: async () => redirectAnswer(`${auth}/account/password`),
    // The documentation and the pages of apps are public; everything else needs a token or a person (RFC 9309).
    robots: async () =>
      plainText([
        'User-agent: *',
        'Allow: /llms.txt',
        `Allow: ${api}/docs`,
        `Allow: ${api}/rels`,
        `Allow: ${auth}/apps/`,
        'Disallow: /',
      ]),
    securityText: async ({ now }) => {
      if (securityContact === undefined) throw notFound('file');
      const expires = new Date(now.getTime() + SECURITY_TEXT_EXPIRES_MS).toISOString();
      return plainText([
        `Contact: ${securityContact}`,
        `Expires: ${expires}`,
        `Canonical: ${new URL('/.well-known/security.txt', authUrl).href}`,
      ]);
    },
  };
}
