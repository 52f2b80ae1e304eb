/** A test certificate authority, made with OpenSSL so that the project contains no keys. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type KeyPair = { key: string; cert: string };

export type Authority = {
  /** The certificate as PEM, and its file for NODE_EXTRA_CA_CERTS. */
  cert: string;
  file: string;
  /** Signs a certificate. `names` as in subjectAltName: `IP:127.0.0.1`, `DNS:example.com`. */
  sign: (...names: string[]) => KeyPair;
  /** Signs an expired certificate. */
  signExpired: (...names: string[]) => KeyPair;
  remove: () => void;
};

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];

export function createAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'halcyon-authority-'));
  let made = 0;
  const make = (...options: string[]): KeyPair & { keyFile: string; certFile: string } => {
    const [keyFile, certFile] = [join(folder, `${made}.key`), join(folder, `${made}.crt`)];
    made += 1;
    execFileSync('openssl', ['req', '-x509', ...EC, '-keyout', keyFile, '-out', certFile, ...options], {
      stdio: 'pipe',
    });
    return { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8'), keyFile, certFile };
  };
  const root = make('-subj', '/CN=Authority of a test', '-addext', 'keyUsage=critical,keyCertSign,cRLSign');
  const leaf = ['-CA', root.certFile, '-CAkey', root.keyFile, '-subj', '/CN=Endpoint of a test'];
  return {
    cert: root.cert,
    file: root.certFile,
    sign: (...names) => {
      const { key, cert } = make(
        ...leaf,
        '-addext',
        `subjectAltName=${names.join(',')}`,
        '-addext',
        'basicConstraints=critical,CA:FALSE',
      );
      return { key, cert };
    },
    signExpired: (...names) => {
      const [keyFile, askFile] = [join(folder, 'expired.key'), join(folder, 'expired.csr')];
      const [namesFile, certFile] = [join(folder, 'expired.names'), join(folder, 'expired.crt')];
      const ask = ['req', '-new', ...EC.slice(0, -2), '-subj', '/CN=Endpoint of a test'];
      execFileSync('openssl', [...ask, '-keyout', keyFile, '-out', askFile], { stdio: 'pipe' });
      writeFileSync(namesFile, `subjectAltName=${names.join(',')}\n`);
      const sign = ['x509', '-req', '-in', askFile, '-CA', root.certFile, '-CAkey', root.keyFile, '-CAcreateserial'];
      const options = ['-days', '-1', '-extfile', namesFile, '-out', certFile];
      execFileSync('openssl', [...sign, ...options], { stdio: 'pipe' });
      return { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8') };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
