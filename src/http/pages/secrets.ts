/** Withholds secrets on pages until the reader has proved a moment ago who they are. */
import type { Document } from '#hypermedia/document.ts';

/** Returns the document with its secrets replaced by `confirmAt`, where the reader proves who they are; unchanged if undefined. */
export function withheldSecrets(document: Document, confirmAt: string | undefined): Document {
  if (confirmAt === undefined) return document;
  return {
    ...document,
    properties: document.properties.map((property) => {
      if (property.isWithheld === true) return { ...property, confirmAt };
      return property.kind === 'secret' && property.value !== null ? { ...property, value: null, confirmAt } : property;
    }),
    embedded: document.embedded.map((embedded) => ({
      ...embedded,
      documents: embedded.documents.map((one) => withheldSecrets(one, confirmAt)),
    })),
  };
}
