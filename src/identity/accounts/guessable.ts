/**
 * Recognizes passwords that are guessed early (NIST SP 800-63B §3.1.1.2): zxcvbn has the 49,000 most common ones, and finds
 * them with digits, capitals and look-alikes (`P@ssw0rd123`), rows of keys, sequences, repetitions and the person's own e-mail.
 */
import type { Fault } from '#core/problem.ts';

/**
 * The worst 40 characters take 30 ms of processor time, 256 take 400 ms; of longer passwords only the beginning is
 * estimated.
 */
const ESTIMATED_CHARACTERS = 40;
/**
 * Of 0 to 4. From 3 on more than 10⁸ guesses are needed, which the throttle of sign-in does not let through in a
 * lifetime.
 */
const SCORE_MIN = 3;

const COMMON = 'it is among the most common passwords';
const SEQUENCE = 'it is a sequence of characters';
const KEYS = 'it is a row of keys';
const REPETITION = 'it repeats itself';
const REASONS: Readonly<Record<string, string>> = {
  topTen: COMMON,
  topHundred: COMMON,
  common: COMMON,
  similarToCommon: 'it differs little from a common password',
  sequences: SEQUENCE,
  straightRow: KEYS,
  keyPattern: KEYS,
  simpleRepeat: REPETITION,
  extendedRepeat: REPETITION,
  userInputs: 'it is made of the e-mail address or the name of this service',
  recentYears: 'it is made of a year',
  dates: 'it is made of a date',
};

/** Loads the dictionaries. This takes 60 ms, so it is deferred until a user first chooses a password. */
async function load() {
  const [{ ZxcvbnFactory }, { dictionary, adjacencyGraphs }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ]);
  return new ZxcvbnFactory({ dictionary, graphs: adjacencyGraphs });
}
let loading: ReturnType<typeof load> | undefined;

/** Returns why a password is easy to guess; undefined if it is not. */
export async function guessableFault({
  email,
  password,
}: Record<'email' | 'password', string>): Promise<Fault | undefined> {
  const estimator = await (loading ??= load());
  const own = ['halcyon', email, ...email.split('@')];
  const { score, feedback } = estimator.check(password.slice(0, ESTIMATED_CHARACTERS), own);
  if (score >= SCORE_MIN) return undefined;
  const reason = REASONS[feedback.warning ?? ''] ?? 'a few more words make it better';
  return { code: 'too_common', message: `password is easy to guess: ${reason}`, field: 'password' };
}
