/** A form with a file in it (RFC 7578), read by the platform's own parser. */
import type { RawRequest } from '#http/route.ts';
import { invalid } from '#core/problem.ts';

/** The fields that are text, and the bytes of the file called `name`: none where nothing was chosen. */
export const readMultipart = async (
  { bytes, contentType }: RawRequest,
  name: string,
): Promise<{ fields: URLSearchParams; file: Buffer }> => {
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
};
