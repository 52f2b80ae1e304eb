import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { DatabaseUrlFault, parseDatabaseUrl, type DatabaseUrl } from './database-url.ts';

const NOTHING = {
  user: undefined,
  password: undefined,
  database: undefined,
  sslMode: 'disable',
  target: 'any',
  parameters: {},
};
const hosts = (...all: [host?: string | undefined, port?: number][]) => ({
  hosts: all.map(([host, port]) => ({ host, port })),
});
const OPTIONS = { options: '-c a=b+c', application_name: 'x' };

/** The forms of PostgreSQL's manual, and those with parameters in place of parts. */
const READ: Readonly<Record<string, Partial<DatabaseUrl>>> = {
  'postgresql://': hosts([]),
  'postgres://localhost': hosts(['localhost']),
  'postgres://localhost:5433': hosts(['localhost', 5433]),
  'postgres://localhost/mydb': { ...hosts(['localhost']), database: 'mydb' },
  'postgres://user@localhost': { ...hosts(['localhost']), user: 'user' },
  'postgres://user:secret@localhost': { ...hosts(['localhost']), user: 'user', password: 'secret' },
  'postgres://u@/db': { ...hosts([]), user: 'u', database: 'db' },
  'postgres://u:p@/db': { ...hosts([]), user: 'u', password: 'p', database: 'db' },
  'postgres://:5433/db': { ...hosts([undefined, 5433]), database: 'db' },
  'postgres:///db': { ...hosts([]), database: 'db' },
  'postgres:///db?host=/tmp&user=u&password=p%26': { ...hosts(['/tmp']), user: 'u', password: 'p&', database: 'db' },
  'postgres://?dbname=db&port=5433': { ...hosts([undefined, 5433]), database: 'db' },
  'postgres://a/x?host=b&user=c&dbname=d': { ...hosts(['b']), user: 'c', database: 'd' },
  'postgres://h1:1,h2:2,[::1]:3/db': { ...hosts(['h1', 1], ['h2', 2], ['::1', 3]), database: 'db' },
  'postgres://h1,h2/db': { ...hosts(['h1'], ['h2']), database: 'db' },
  'postgres:///db?host=h1,h2&port=1,2': { ...hosts(['h1', 1], ['h2', 2]), database: 'db' },
  'postgres:///db?host=h1,h2&port=1': { ...hosts(['h1', 1], ['h2', 1]), database: 'db' },
  'postgres://h:1/db?host=h1,h2': { ...hosts(['h1', 1], ['h2', 1]), database: 'db' },
  'postgres://[2001:db8::1]/db': { ...hosts(['2001:db8::1']), database: 'db' },
  'postgres://%2Fvar%2Frun/db': { ...hosts(['/var/run']), database: 'db' },
  'postgres://%C3%BC:%40%3A%2F@h/d%20b': { ...hosts(['h']), user: 'ü', password: '@:/', database: 'd b' },
  'postgres://u@azure:p@ss:word@h/db': { ...hosts(['h']), user: 'u@azure', password: 'p@ss:word', database: 'db' },
  'postgres://u:a#b+c@h/db': { ...hosts(['h']), user: 'u', password: 'a#b+c', database: 'db' },
  'postgres://h/db?sslmode=require': { ...hosts(['h']), database: 'db', sslMode: 'require' },
  'postgres://h/db?sslrootcert=system': { ...hosts(['h']), database: 'db', sslMode: 'verify-full' },
  'postgres://h/db?target_session_attrs=primary': { ...hosts(['h']), database: 'db', target: 'primary' },
  'postgres://h/db?connect_timeout=3': { ...hosts(['h']), database: 'db' },
  'postgres://h/?options=-c%20a%3Db+c&application_name=x': { ...hosts(['h']), parameters: OPTIONS },
};

const SECRET = 'a-secret';
const REFUSED: Readonly<Record<string, RegExp>> = {
  '': /is not an address/,
  'localhost/db': /is not an address/,
  'mysql://h/db': /is not an address/,
  'host=localhost dbname=db': /is not an address/,
  'postgres:h/db': /is not an address/,
  'postgres://u:a-secret%@h/db': /%25/,
  'postgres://h/db%zz': /%25/,
  'postgres://h/db?application_name=%ff': /%25/,
  'postgres://u:a-secret/x@h/db': /a port .*%2F/,
  'postgres://u:a-secret?x@h/db': /name=value/,
  'postgres://h:0/db': /a port/,
  'postgres://h:65536/db': /a port/,
  'postgres://h:x/db': /a port/,
  'postgres:///db?port=5432x': /a port/,
  'postgres://one,two:6000/db': /each host/,
  'postgres://one:6000,two/db': /each host/,
  'postgres:///db?host=a,b,c&port=1,2': /each host/,
  'postgres:///db?host=a&port=1,2': /each host/,
  'postgres://2001:db8::1/db': /a port .*brackets/,
  'postgres://[::1/db': /brackets/,
  'postgres://h/db?host': /name=value/,
  'postgres://h/db?=x': /name=value/,
  'postgres://h/db?options=-c a=b': /name=value/,
  'postgres://h/db?host=a&host=b': /host twice/,
  'postgres://h/db?sslmode=maybe': /sslmode .*verify-full/,
  'postgres://h/db?target_session_attrs=standby': /target_session_attrs .*primary/,
  'postgres://h/db?target_session_attrs=prefer-standby': /target_session_attrs .*primary/,
  'postgres://h/db?sslrootcert=/etc/ca.pem': /sslrootcert.*NODE_EXTRA_CA_CERTS/,
  ...Object.fromEntries(
    ['keepalives', 'keepalives_idle', 'tcp_user_timeout', 'hostaddr', 'passfile', 'service', 'sslcert', 'sslkey', 'ssl']
      .concat(['gssencmode', 'channel_binding', 'load_balance_hosts', 'replication', 'require_auth', 'sslnegotiation'])
      .map((name) => [
        `postgres://u:${SECRET}@h/db?${name}=1`,
        new RegExp(`parameter ${name}, which is not supported`),
      ]),
  ),
};

test('each form of a URL is read as libpq reads it', () => {
  for (const [url, expected] of Object.entries(READ))
    assert.deepEqual(parseDatabaseUrl(url), { ...NOTHING, ...expected }, url);
});

test('what is not supported is refused by its name, without the password', () => {
  for (const [url, message] of Object.entries(REFUSED))
    assert.throws(
      () => parseDatabaseUrl(url),
      (error: Error) =>
        error instanceof DatabaseUrlFault && message.test(error.message) && !error.message.includes(SECRET),
      url,
    );
});

test('any encoded parts are read back, and any text is read or refused', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
  const all = fc.record({
    user: text,
    password: text,
    database: text,
    host: text.filter((host) => !/[[\],]/.test(host)),
  });
  fc.assert(
    fc.property(all, ({ user, password, database, host }) => {
      const [u, p, d, h] = [user, password, database, host].map(encodeURIComponent);
      const expected = { ...NOTHING, ...hosts([host, 7]), user, password, database };
      assert.deepEqual(parseDatabaseUrl(`postgres://${u}:${p}@${h}:7/${d}`), expected);
      assert.deepEqual(parseDatabaseUrl(`postgres://?user=${u}&password=${p}&dbname=${d}&host=${h}&port=7`), expected);
    }),
  );
  const part = fc.constantFrom(
    'postgres://',
    'u',
    ':',
    '@',
    '/',
    '?',
    '&',
    '=',
    ',',
    '[',
    ']',
    '%',
    '%41',
    '1',
    'host',
    'port',
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      try {
        assert.ok(parseDatabaseUrl(`postgres://${parts.join('')}`).hosts.length > 0);
      } catch (error) {
        assert.ok(error instanceof DatabaseUrlFault, String(error));
      }
    }),
  );
});
