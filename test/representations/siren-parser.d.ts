/** The package has no types: these are the ones that the tests use. */
declare module 'siren-parser' {
  export type SirenField = {
    name: string;
    class: string[];
    type: string;
    title?: string;
    min?: number;
    max?: number;
    value?: string | number | { title?: string; value: string | number; selected?: boolean }[];
  };
  export type SirenAction = {
    name: string;
    title: string;
    method: string;
    href: string;
    type: string;
    fields?: SirenField[];
    getField: (name: string) => SirenField | undefined;
  };
  export type SirenLink = { rel: string[]; href: string; title?: string; type?: string };
  export type SirenEntity = {
    class: string[];
    rel?: string[];
    title?: string;
    properties: Record<string, unknown>;
    entities?: SirenEntity[];
    links?: SirenLink[];
    actions?: SirenAction[];
    hasClass: (name: string) => boolean;
    getAction: (name: string) => SirenAction | undefined;
    getLink: (rel: string) => SirenLink | undefined;
    getSubEntities: (rel: string) => SirenEntity[];
  };
  const parser: { default: (text: string) => SirenEntity };
  export default parser;
}
