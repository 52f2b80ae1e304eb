/** Stores and serves the logos of apps. Logos are uploaded and validated by their bytes; none is fetched from a URL. */
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { RawHandler } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { notFound, type Fault } from '#core/problem.ts';
import { isClientId } from '../clients.ts';
import { recordClientEntry, type ClientActor } from '../action.ts';
import type { Client } from '../clients-sql.ts';
import { inspectPicture } from './picture.ts';
import { deleteLogo, findLogo, touchClient, upsertLogo } from './logo-sql.ts';

export const LOGO_BYTES_MAX = 256 * 1024;

const DAY_SECONDS = 86_400;

/** Returns the path of a logo. The version in the query changes with the picture, so that browsers may cache it. */
export function logoPath(root: string, clientId: string, logoDate: Date): string {
  return `${root}/clients/${clientId}/logo?v=${logoDate.getTime()}`;
}

/** Renders the logo next to an app's name (hence the empty alt text); null without a logo. */
export function logoImage(root: string, client: { clientId: string; logoDate: Date | null }): Markup | null {
  return client.logoDate === null
    ? null
    : html`<img
        class="logo"
        src="${logoPath(root, client.clientId, client.logoDate)}"
        alt=""
        width="48"
        height="48"
      />`;
}

const changeLogo = (sql: Sql, client: Client, actor: ClientActor, write: (tx: Tx) => Promise<void>): Promise<void> =>
  transaction(sql, async (tx) => {
    if (!(await touchClient(tx, client.id, actor))) throw notFound('app');
    await write(tx);
    const detail = { name: client.name, changed: ['logo'] };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  });

const fault = (code: string, message: string): Fault => ({ code, message, field: 'logo' });

/** Validates and stores a logo. Returns the fault of the picture; undefined if it was stored. */
export async function setLogo(sql: Sql, client: Client, bytes: Buffer, actor: ClientActor): Promise<Fault | undefined> {
  if (bytes.length === 0) return fault('required', 'Choose a picture to upload');
  if (bytes.length > LOGO_BYTES_MAX)
    return fault('too_large', `The picture must be at most ${LOGO_BYTES_MAX / 1024} KiB`);
  const inspected = inspectPicture(bytes);
  if ('fault' in inspected) return fault('invalid_value', `The picture ${inspected.fault}`);
  const { mediaType } = inspected;
  await changeLogo(sql, client, actor, (tx) => upsertLogo(tx, client.id, { mediaType, bytes }, actor.now));
  return undefined;
}

export function removeLogo(sql: Sql, client: Client, actor: ClientActor): Promise<void> {
  return changeLogo(sql, client, actor, (tx) => deleteLogo(tx, client.id));
}

/** GET {auth_url}/clients/<client_id>/logo. The CSP isolates the picture in case it is opened as a document. */
export function createLogo({ sql }: { sql: Sql }): RawHandler {
  return async ({ params }) => {
    const clientId = params['client_id'] ?? '';
    const logo = isClientId(clientId) ? await findLogo(sql, clientId) : undefined;
    if (logo === undefined) throw notFound('logo');
    const headers = {
      'Content-Type': logo.mediaType,
      'Content-Security-Policy': "default-src 'none'; sandbox",
      'Cache-Control': `public, max-age=${DAY_SECONDS}`,
    };
    return { status: 200, headers, body: logo.bytes };
  };
}
