/** Searches for known secrets, and for half of one, in each spelling that a table or a log may have. */
import type { Sql } from '#db/pool.ts';

/** Half of a secret is a leak as well. */
const PIECE_LENGTH = 16;
/** A piece at any position contains a whole part that begins at a multiple of this. */
const STEP = PIECE_LENGTH / 2;

/** The bytes as base64 at any position within a longer text: characters that depend on the neighbours are cut off. */
const inBase64 = (bytes: Buffer): string[] =>
  [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '');
    const inner = text.slice(before === 0 ? 0 : before + 1, -1);
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });

/** The random part, without its prefix, in each spelling. */
function spellingsOf(secret: string): string[] {
  const random = secret.replace(/^(?:hal_[a-z]{2}_|whsec_)/, '');
  const bytes = Buffer.from(random);
  const decoded = Buffer.from(random, 'base64url');
  return [
    random,
    encodeURIComponent(random),
    new URLSearchParams([[random, '']]).toString().slice(0, -1),
    bytes.toString('hex'),
    ...inBase64(bytes),
    decoded.toString('hex'),
    decoded.toString('latin1'),
  ];
}

/** Each piece of each spelling, with the name of its secret. */
function piecesOf(secrets: ReadonlyMap<string, string>): Map<string, string> {
  const pieces = new Map<string, string>();
  for (const [name, secret] of secrets) {
    for (const spelling of spellingsOf(secret))
      for (let at = 0; at + PIECE_LENGTH <= spelling.length; at += 1)
        pieces.set(spelling.slice(at, at + PIECE_LENGTH), name);
  }
  return pieces;
}

/**
 * Returns the names of the secrets that are in the text, each once with its surroundings. Secrets are 16 characters
 * or longer.
 */
export function findSecrets(text: string, secrets: ReadonlyMap<string, string>): string[] {
  const pieces = piecesOf(secrets);
  const parts = new Set<string>();
  for (const piece of pieces.keys())
    for (let at = 0; at + STEP <= PIECE_LENGTH; at += 1) parts.add(piece.slice(at, at + STEP));
  const found = new Map<string, string>();
  for (let at = 0; at + STEP <= text.length; at += STEP) {
    if (!parts.has(text.slice(at, at + STEP))) continue;
    for (let start = Math.max(0, at + STEP - PIECE_LENGTH); start <= at; start += 1) {
      const name = pieces.get(text.slice(start, start + PIECE_LENGTH));
      if (name !== undefined && !found.has(name)) found.set(name, text.slice(Math.max(0, start - 120), start + 60));
    }
  }
  return [...found].map(([name, around]) => `${name}: …${around}…`);
}

/** Every row of every table as text, bytes in four spellings. */
export async function dump(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public' order by 1`;
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await sql`select * from ${sql(name)}`;
      const text = JSON.stringify(rows, (_key, value: unknown) => {
        const bytes = value as { type?: string; data?: number[] } | null;
        if (bytes?.type !== 'Buffer' || bytes.data === undefined) return value;
        const buffer = Buffer.from(bytes.data);
        return (['hex', 'latin1', 'base64', 'base64url'] as const).map((encoding) => buffer.toString(encoding));
      });
      return `${name}: ${text}`;
    }),
  );
  return texts.join('\n');
}
