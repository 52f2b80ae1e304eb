/** The OpenID providers with which people sign in: a JSON array in one setting, because each has a secret and options of its own. */
import { Type, type Static } from 'typebox';
import { Compile } from 'typebox/schema';
import { ConfigError, text, type Env } from './env.ts';

const DOMAIN = '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$';

const Providers = Type.Array(
  Type.Object(
    {
      /** In the text of the button and in addresses. */
      name: Type.String({ pattern: '^[A-Za-z][A-Za-z0-9-]{0,40}$' }),
      issuer: Type.String({ minLength: 1, maxLength: 2_000 }),
      client_id: Type.String({ minLength: 1, maxLength: 1_000 }),
      client_secret: Type.String({ minLength: 1, maxLength: 1_000 }),
      domains: Type.Optional(Type.Array(Type.String({ pattern: DOMAIN, maxLength: 253 }))),
      creates_accounts: Type.Optional(Type.Boolean()),
    },
    { additionalProperties: false },
  ),
  { maxItems: 20 },
);
const compiled = Compile(Providers);

export type OpenIdProvider = {
  readonly name: string;
  /** As the provider writes it, which is compared with its tokens. */
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Domains of the e-mail addresses that may be linked; empty: all. */
  readonly domains: readonly string[];
  /** Whether the first sign-in of an address in these domains creates an account. */
  readonly createsAccounts: boolean;
};

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
const EXAMPLE =
  '[{"name": "Google", "issuer": "https://accounts.google.com", "client_id": "…", "client_secret": "…", "domains": ["example.com"]}]';

/** Returns why an issuer cannot be used; http is only for a provider on the same computer. */
function issuerFault(issuer: string): string | undefined {
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.has(url.hostname));
  if (url !== undefined && isSafe && url.search === '' && url.hash === '' && url.username === '') return undefined;
  return 'issuer must be an https address such as https://accounts.google.com';
}

/** Returns why the providers cannot be used together; undefined if they can. */
function faultOf(providers: Static<typeof Providers>): string | undefined {
  const [names, issuers] = [new Set<string>(), new Set<string>()];
  for (const { name, issuer, domains = [], creates_accounts: creates } of providers) {
    const fault = issuerFault(issuer);
    if (fault !== undefined) return `${name}: ${fault}`;
    if (creates === true && domains.length === 0)
      return `${name}: list the domains of the addresses for which creates_accounts creates accounts`;
    if (names.has(name.toLowerCase())) return `${name}: two providers have this name`;
    // The identities of two clients at one issuer would be the same.
    if (issuers.has(issuer)) return `${name}: another provider has the same issuer`;
    names.add(name.toLowerCase());
    issuers.add(issuer);
  }
  return undefined;
}

/** Messages do not quote the value: it contains secrets. */
export function readOpenIdProviders(env: Env, name: string): readonly OpenIdProvider[] {
  const value = text(env, name);
  if (value === undefined) return [];
  const refuse = (why: string): never => {
    throw new ConfigError(`${name}: ${why}`);
  };
  let providers: unknown;
  try {
    providers = JSON.parse(value);
  } catch {
    return refuse(`it is not JSON: write an array such as ${EXAMPLE}`);
  }
  if (!compiled.Check(providers)) {
    const [, [error]] = compiled.Errors(providers);
    return refuse(
      `${error?.instancePath === '' ? 'it' : error?.instancePath} ${error?.message}: write an array such as ${EXAMPLE}`,
    );
  }
  const fault = faultOf(providers);
  if (fault !== undefined) return refuse(fault);
  return providers.map((provider) =>
    Object.freeze({
      name: provider.name,
      issuer: provider.issuer,
      clientId: provider.client_id,
      clientSecret: provider.client_secret,
      domains: provider.domains ?? [],
      createsAccounts: provider.creates_accounts === true,
    }),
  );
}
