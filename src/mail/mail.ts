/** Types of mails: other modules write them, the mailer sends them. */

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
