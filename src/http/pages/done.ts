/** What a page says after a form has worked: it is told by a word in the address, so that a reload does nothing again. */

/** The parameter; pages alone know it. */
export const DONE = 'done';

const SENTENCES = {
  created: 'It is made.',
  changed: 'Your changes are saved.',
  done: 'It is done.',
  sent: 'It was sent once. What came of it stands below.',
  rotated:
    'It is done. Give the next key, if one stands below, to whoever receives: both count until the rotation ends.',
  begun: 'It has begun.',
  unchanged: 'Nothing was changed.',
  deleted: 'It is deleted.',
} as const;

export type Done = keyof typeof SENTENCES;

export const doneSentence = (query: URLSearchParams): string | undefined => {
  const word = query.get(DONE) ?? '';
  return Object.hasOwn(SENTENCES, word) ? SENTENCES[word as Done] : undefined;
};
