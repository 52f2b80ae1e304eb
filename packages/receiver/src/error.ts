/** Why a delivery was refused. `docs/receiving.md` says what to do about each. */
export type WebhookErrorCode =
  /** No key was given: your side has to be set up. */
  | 'no_key'
  /** The body was parsed before it got here: your side has to hand over what arrived. */
  | 'not_raw'
  /** The body is longer than the limit of the middleware. */
  | 'too_large'
  /** The connection to the middleware was closed before the whole body had arrived. */
  | 'incomplete'
  | 'missing_header'
  | 'bad_header'
  | 'bad_signature'
  | 'too_old'
  | 'too_new'
  | 'not_decrypted';

const STATUS: Readonly<Partial<Record<WebhookErrorCode, 400 | 413 | 500>>> = {
  no_key: 500,
  not_raw: 500,
  too_large: 413,
  incomplete: 400,
};

/** The message is for your log: it names neither a key nor the signature that would have been right. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError';
  readonly code: WebhookErrorCode;
  /** The status of the response: 500 where the fault is yours, and the delivery is right to come again; 401 if it is not genuine. */
  readonly status: 400 | 401 | 413 | 500;

  constructor(code: WebhookErrorCode, message: string) {
    super(message);
    this.code = code;
    this.status = STATUS[code] ?? 401;
  }
}
