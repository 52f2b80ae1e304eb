/** Types and layout of mails: other modules write them, the mailer sends them. */

export type Mail = {
  to: string;
  subject: string;
  /** Plain text, lines separated by \n. */
  text: string;
  /** A notification that no user requested: it has a queue of its own and is sent after requested mails. */
  isNotice?: true;
};

export type Mailer = {
  /** Queues the mail and returns at once, so that the response time does not reveal whether a mail is sent. */
  send: (mail: Mail) => void;
};

/** Returns a mail in the layout of all mails: a greeting and paragraphs, each separated by an empty line. */
export function letter(to: string, subject: string, paragraphs: readonly string[]): Mail {
  return { to, subject, text: `${['Hello,', ...paragraphs].join('\n\n')}\n` };
}
