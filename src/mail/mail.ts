/** What may be mailed, and by whom: the rooms say what, the operator's mail server carries it. */

export type Mail = {
  to: string;
  subject: string;
  /** Plain text, lines parted by \n. */
  text: string;
  /** Nobody waits for it: it goes after what somebody asked for, and takes no place from that. */
  isNotice?: true;
};

export type Mailer = {
  /** Hands the mail in, in the background: whoever waits for the answer must not learn from its time whether there was one. */
  send: (mail: Mail) => void;
};
