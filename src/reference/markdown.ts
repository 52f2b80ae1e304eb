/** The documentation for programs that read text: /llms.txt (llmstxt.org), and the documents of /docs as Markdown. */
import { notFound } from '#core/problem.ts';
import type { RawHandler, RawResponse } from '#http/route.ts';
import { documentNames, INDEX, markdownOfDocument, titleOf } from './documents.ts';
import type { Setting } from './setting.ts';

const markdown = (body: string): RawResponse => ({
  status: 200,
  headers: { 'Content-Type': 'text/markdown; charset=utf-8', 'Cache-Control': 'no-cache' },
  body,
});

function indexOf({ naming: { baseUrl }, authUrl, mcpAddress }: Setting): string {
  const pages = [INDEX, ...documentNames].map((name) => `- [${titleOf(name)}](${baseUrl}/docs/${name}.md)`);
  return `# Halcyon

> A hypermedia API of stores, an OAuth 2.0 authorization server and webhooks. Links lead from ${baseUrl} to every resource; tokens are of ${authUrl}.
${mcpAddress === undefined ? '' : `\nAgents connect to ${mcpAddress} (Model Context Protocol).\n`}
## Documentation

${pages.join('\n')}

## For programs

- [OpenAPI 3.1](${baseUrl}/openapi.json): every address with its parameters and responses
- [Link relations](${baseUrl}/rels): what each link means, and what can be done there
`;
}

export function createMarkdown(setting: Setting): Record<'index' | 'page', RawHandler> {
  return {
    index: async () => markdown(indexOf(setting)),
    page: async ({ params: { page = '' } }) => {
      if (page !== INDEX && !documentNames.includes(page)) throw notFound('page');
      return markdown(markdownOfDocument(page, setting));
    },
  };
}
