/** Why a delivery was refused. `docs/webhooks.md` says what to do about each. */
export type WebhookErrorCode =
  /** No key was given: your side has to be set up. */
  | 'no_key'
  /** The body was parsed before it got here: your side has to hand over what arrived. */
  | 'not_raw'
  | 'missing_header'
  | 'bad_header'
  | 'bad_signature'
  | 'too_old'
  | 'too_new'
  | 'not_decrypted';

/** The message is for your log: it names neither a key nor the signature that would have been right. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError';
  readonly code: WebhookErrorCode;
  /** What to answer: 500 where the fault is yours, and the delivery is right to come again; else 401. */
  readonly status: 401 | 500;

  constructor(code: WebhookErrorCode, message: string) {
    super(message);
    this.code = code;
    this.status = code === 'no_key' || code === 'not_raw' ? 500 : 401;
  }
}
