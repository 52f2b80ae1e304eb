/** SQL of second factors. Writes the tables passkey, authenticator_app, recovery_code and used_challenge. */
import { firstOf, hasRows, oneOf, type Queryable } from '#db/pool.ts';

/** The factors of a user: passkeys in the order of creation, and the number of unused recovery codes. */
export type Factors = { passkeys: readonly PasskeyRow[]; hasApp: boolean; recoveryCodes: number };

export type PasskeyRow = {
  id: number;
  credentialId: Buffer;
  name: string;
  transports: readonly string[];
  dateCreated: Date;
  dateUsed: Date | null;
};

export async function findFactors(sql: Queryable, userId: number): Promise<Factors> {
  const passkeys = await sql<PasskeyRow[]>`
    select id, credential_id as "credentialId", name, transports, date_created as "dateCreated", date_used as "dateUsed"
    from passkey where user_id = ${userId} order by id`;
  const others = await oneOf(sql<Omit<Factors, 'passkeys'>[]>`
    select exists (select from authenticator_app where user_id = ${userId}) as "hasApp",
      (select count(*)::int from recovery_code where user_id = ${userId}) as "recoveryCodes"`);
  return { passkeys, ...others };
}

export function insertPasskey(
  sql: Queryable,
  passkey: {
    userId: number;
    credentialId: Uint8Array;
    publicKey: Uint8Array;
    signCount: number;
    transports: readonly string[];
    name: string;
    now: Date;
  },
): Promise<boolean> {
  return hasRows(sql`
    insert into passkey (id, user_id, credential_id, public_key, sign_count, transports, name, date_created)
    values (nextval('id_n'), ${passkey.userId}, ${Buffer.from(passkey.credentialId)}, ${Buffer.from(passkey.publicKey)},
      ${passkey.signCount}, ${passkey.transports}, ${passkey.name}, ${passkey.now})
    on conflict (credential_id) do nothing
    returning id`);
}

/** A passkey with the public key in COSE format. */
export type StoredPasskey = { id: number; userId: number; publicKey: Buffer; signCount: number };

export function findPasskey(sql: Queryable, credentialId: Uint8Array): Promise<StoredPasskey | undefined> {
  return firstOf(sql<StoredPasskey[]>`
    select id, user_id as "userId", public_key as "publicKey", sign_count as "signCount"
    from passkey where credential_id = ${Buffer.from(credentialId)}`);
}

/** Records a use. Returns false if the passkey was removed, or used with this or a higher counter, in the meantime. */
export function touchPasskey(sql: Queryable, { id, signCount, now }: { id: number; signCount: number; now: Date }) {
  return hasRows(sql`
    update passkey set sign_count = ${signCount}, date_used = ${now}
    where id = ${id} and (sign_count < ${signCount} or (sign_count = 0 and ${signCount}::bigint = 0))
    returning id`);
}

/** Returns whether the user had a passkey of this id. */
export function renamePasskey(sql: Queryable, { userId, id, name }: { userId: number; id: number; name: string }) {
  return hasRows(sql`update passkey set name = ${name} where id = ${id} and user_id = ${userId} returning id`);
}

/** Deletes a passkey and returns its name; undefined if the user had none of this id. */
export async function deletePasskey(
  sql: Queryable,
  { userId, id }: { userId: number; id: number },
): Promise<string | undefined> {
  const [row] = await sql<{ name: string }[]>`
    delete from passkey where id = ${id} and user_id = ${userId} returning name`;
  return row?.name;
}

/** Marks a challenge as used until it expires. Returns false if it was used before. */
export function consumeChallenge(sql: Queryable, hash: Buffer, expires: Date): Promise<boolean> {
  return hasRows(sql`
    insert into used_challenge (hash, date_expires) values (${hash}, ${expires})
    on conflict (hash) do nothing
    returning hash`);
}

export async function replaceApp(
  sql: Queryable,
  { userId, secret, lastStep, now }: { userId: number; secret: Buffer; lastStep: number; now: Date },
): Promise<void> {
  await sql`
    insert into authenticator_app (user_id, secret, last_step, date_created)
    values (${userId}, ${secret}, ${lastStep}, ${now})
    on conflict (user_id) do update
    set secret = excluded.secret, last_step = excluded.last_step, date_created = excluded.date_created`;
}

export async function findApp(sql: Queryable, userId: number): Promise<Buffer | undefined> {
  const [row] = await sql<{ secret: Buffer }[]>`select secret from authenticator_app where user_id = ${userId}`;
  return row?.secret;
}

/** Accepts the code of a time step. Returns false if a code of this or a later step was accepted before. */
export function consumeStep(sql: Queryable, { userId, step }: { userId: number; step: number }): Promise<boolean> {
  return hasRows(sql`
    update authenticator_app set last_step = ${step}
    where user_id = ${userId} and last_step < ${step}
    returning user_id`);
}

export function deleteApp(sql: Queryable, userId: number): Promise<boolean> {
  return hasRows(sql`delete from authenticator_app where user_id = ${userId} returning user_id`);
}

export async function replaceRecoveryCodes(
  sql: Queryable,
  { userId, hashes }: { userId: number; hashes: readonly Buffer[] },
): Promise<void> {
  await sql`delete from recovery_code where user_id = ${userId}`;
  await sql`
    insert into recovery_code (user_id, hash) select ${userId}, hash from unnest(${hashes}::bytea[]) as t (hash)`;
}

/** Deletes a code. Returns false if the user has no such code, or has used it. */
export function consumeRecoveryCode(sql: Queryable, userId: number, hash: Buffer): Promise<boolean> {
  return hasRows(sql`delete from recovery_code where user_id = ${userId} and hash = ${hash} returning user_id`);
}

export async function deleteRecoveryCodes(sql: Queryable, userId: number): Promise<void> {
  await sql`delete from recovery_code where user_id = ${userId}`;
}

/** Deletes all factors of a user and returns whether there were any. */
export async function deleteFactors(sql: Queryable, userId: number): Promise<boolean> {
  const passkeys = await sql`delete from passkey where user_id = ${userId} returning id`;
  const hadApp = await deleteApp(sql, userId);
  await deleteRecoveryCodes(sql, userId);
  return hadApp || passkeys.length > 0;
}
