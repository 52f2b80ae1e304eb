/**
 * The message of a page after a form has succeeded. A parameter of the address selects it, so that a reload repeats
 * nothing.
 */

/** The parameter, which only pages know. */
export const DONE = 'done';

const SENTENCES = {
  created: 'Created.',
  changed: 'Changes saved.',
  done: 'Done.',
  sent: 'Sent once. See the result below.',
  rotated:
    'Done. Give the next key, if one is shown below, to the receiver: both keys are valid until the rotation ends.',
  joined: 'You are a member of this store now.',
  begun: 'Started.',
  retried: 'Retry requested.',
  unchanged: 'No changes.',
  deleted: 'Deleted.',
  gone: 'This no longer exists.',
  declined: 'Invitation declined.',
  left: 'You have left the store.',
  disconnected: 'App disconnected: its tokens no longer work, and the webhooks that it created are disabled.',
  disconnected_partly:
    'Disconnected. The app keeps the access of its other entries in this list, with their tokens and webhooks.',
} as const;

export type Done = keyof typeof SENTENCES;

export function doneSentence(query: URLSearchParams): string | undefined {
  return sentenceOf(query.get(DONE) ?? '');
}

export function sentenceOf(word: string): string | undefined {
  return Object.hasOwn(SENTENCES, word) ? SENTENCES[word as Done] : undefined;
}
