/** Bytes of a request as text, and the one way to say that they are not what they should be. */
import { invalid, type Problem } from '#kernel/problem.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/** `field` is the path of the member; empty where it is the whole body. */
export const malformed = (message: string, field = ''): Problem =>
  invalid({ code: 'malformed_body', message, ...(field === '' ? {} : { field }) });

/** UTF-8 without a NUL, which PostgreSQL cannot store; throws a 400. */
export const decode = (bytes: Uint8Array): string => {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw malformed('The body is not valid UTF-8');
  }
  if (text.includes('\0')) throw malformed('The body contains a NUL character');
  return text;
};

/** Whether all percent sequences of a query or a form spell UTF-8. */
export const decodes = (text: string): boolean => {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
};
