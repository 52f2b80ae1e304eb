/** Parses a form with a file (RFC 7578), with the parser of Node.js. */
import type { RawRequest } from '#http/route.ts';
import { invalid } from '#core/problem.ts';

/** Returns the text fields and the bytes of the file field `name`, empty if no file was chosen. */
export async function readMultipart(
  { bytes, contentType }: RawRequest,
  name: string,
): Promise<{ fields: URLSearchParams; file: Buffer }> {
  let data: FormData;
  try {
    data = await new Response(Buffer.from(bytes), { headers: { 'Content-Type': contentType } }).formData();
  } catch {
    throw invalid({ code: 'malformed_body', message: 'The form could not be read; send it as multipart/form-data' });
  }
  const fields = new URLSearchParams();
  for (const [field, value] of data) if (typeof value === 'string') fields.append(field, value);
  const file = data.get(name);
  return { fields, file: file instanceof Blob ? Buffer.from(await file.arrayBuffer()) : Buffer.alloc(0) };
}
