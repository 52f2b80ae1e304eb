/**
 * The endpoint for agents: the Model Context Protocol over Streamable HTTP without sessions and streams, so that any process serves any
 * request. The server checks the token before this code runs. The tools send requests of the same caller to resources, and have no other way
 * to data.
 */
import { closedObject } from '#http/inputs.ts';
import type * as Sdk from '@modelcontextprotocol/server';
import type { Server, Tool as ListedTool } from '@modelcontextprotocol/server';
import { Type, type TProperties } from 'typebox';
import { parseJson } from '#http/bodies/json-body.ts';
import { createValidator } from '#http/bodies/validate.ts';
import { mcpAddressOf, resourceMetadataOf } from '#http/root.ts';
import type { Chapter } from '#http/relation.ts';
import type { Dispatch, ProblemAnswer, RawRequest, RawResponse } from '#http/route.ts';
import { offeredActions, WITH_ACTIONS, type OfferedAction } from '#hypermedia/offered-actions.ts';
import { invalidValue, invalid, Problem } from '#core/problem.ts';

// The tools.

/** Some 15,000 tokens of a model; clients cut longer results without saying so. */
const RESULT_CHARACTERS_MAX = 60_000;

type ToolResult = { content: { type: 'text'; text: string }[]; isError?: true };

const href = Type.String({ description: 'The address of a resource: a link of a response' });

function textResult(text: string): ToolResult {
  if (text.length <= RESULT_CHARACTERS_MAX) return { content: [{ type: 'text', text }] };
  const shown = text.slice(0, RESULT_CHARACTERS_MAX).toWellFormed();
  const notice = `Cut after ${RESULT_CHARACTERS_MAX} of ${text.length} characters. Read less at once: a page of a list with limit and offset in its query, only some members with fields=name,url, or only some links with links=self`;
  return {
    content: [
      { type: 'text', text: shown },
      { type: 'text', text: notice },
    ],
  };
}

type Answer = Awaited<ReturnType<Dispatch>>;

/** Returns the body of a response; of an error with its status, so that the agent reads what the API says. */
function resultOf({ status, text }: Answer): ToolResult {
  if (status >= 400) return { ...textResult(`HTTP ${status}\n${text}`), isError: true };
  return textResult(text === '' ? `Done (HTTP ${status})` : text);
}

/** Returns the actions that a resource offers to the caller, or the error of the API. */
async function readActions(dispatch: Dispatch, address: string): Promise<Answer | readonly OfferedAction[]> {
  const answer = await dispatch({ method: 'GET', href: address, accept: WITH_ACTIONS });
  return answer.status === 200 ? offeredActions(answer.text) : answer;
}

const isAnswer = (read: Answer | readonly OfferedAction[]): read is Answer => 'status' in read;

type Input = { href: string; action: string; input?: object; idempotency_key?: string };

async function act(dispatch: Dispatch, { href: at, action: name, input = {}, idempotency_key: key }: Input) {
  const actions = await readActions(dispatch, at);
  if (isAnswer(actions)) return resultOf(actions);
  const action = actions.find((one) => one.name === name);
  if (action === undefined) {
    const names = actions.map((one) => one.name).join(', ') || 'none';
    const message = `The resource does not offer this action to you; it offers: ${names}`;
    throw invalid(invalidValue('action', message));
  }
  const { method, href: target } = action;
  return resultOf(await dispatch({ method, href: target, key, body: JSON.stringify(input) }));
}

type Tool = {
  listed: ListedTool;
  check: ReturnType<typeof createValidator>;
  run: (dispatch: Dispatch, input: Input) => Promise<ToolResult>;
};

function createTool(
  { properties, readOnlyHint, ...described }: Described & { properties: TProperties; readOnlyHint: boolean },
  run: Tool['run'],
): Tool {
  const schema = closedObject(properties);
  const inputSchema = schema as object as ListedTool['inputSchema'];
  const annotations = { readOnlyHint, openWorldHint: false };
  return { listed: { ...described, annotations, inputSchema }, check: createValidator(schema), run };
}

type Described = { name: string; title: string; description: string };

const createTools = (): readonly Tool[] => [
  createTool(
    {
      name: 'read',
      title: 'Read a resource',
      description:
        'Returns a resource: its members, and in _links what it leads to. A list takes limit, offset, order, fields and filters in its query.',
      readOnlyHint: true,
      properties: { href },
    },
    async (dispatch, { href: at }) => resultOf(await dispatch({ method: 'GET', href: at })),
  ),
  createTool(
    {
      name: 'actions',
      title: 'List the actions of a resource',
      description: 'Returns what you may do to a resource: the name of each action, and the JSON Schema of its input.',
      readOnlyHint: true,
      properties: { href },
    },
    async (dispatch, { href: at }) => {
      const actions = await readActions(dispatch, at);
      return isAnswer(actions) ? resultOf(actions) : textResult(JSON.stringify(actions));
    },
  ),
  createTool(
    {
      name: 'do',
      title: 'Do an action',
      description: 'Does an action that `actions` has listed for the resource, and returns the result.',
      readOnlyHint: false,
      properties: {
        href,
        action: Type.String({ description: 'The name of the action' }),
        input: Type.Optional(Type.Object({}, { description: 'The values of the fields of the action' })),
        idempotency_key: Type.Optional(
          Type.String({ description: 'A new key for a creation, and the same one if it is repeated: it is made once' }),
        ),
      },
    },
    act,
  ),
];

// The protocol.

type McpSettings = { baseUrl: string; authUrl: string; version: string; relationPrefix: string };

const instructionsFor = ({ baseUrl, relationPrefix }: McpSettings): string =>
  `A hypermedia API of stores and their webhooks. Begin with read of ${baseUrl}, which links to what your token may use, and follow links: addresses are not made up. ${relationPrefix}:… is the relation of a link, and its description is at ${baseUrl}/rels/….`;

/** A request to the endpoint, whose body is one message. */
type Message = Pick<RawRequest, 'headers' | 'bytes'>;

/** The package describes each faulty member in its error: 9,000 took 150 ms, and made a response of 2.3 MB. */
const MESSAGE_MEMBERS_MAX = 2_000;

/**
 * Returns the message of a request, with the numbers of an input as they are written. Throws a 400 for a batch, which newer versions of the
 * protocol do not have.
 */
function readMessage({ bytes }: Message): unknown {
  const message = parseJson(bytes, { membersMax: MESSAGE_MEMBERS_MAX, keepsNumbers: true });
  if (!Array.isArray(message)) return message;
  throw invalid({ code: 'malformed_body', message: 'Send one message per request, not a list of messages' });
}

/** Throws a 403 for a script of another site, which could reach a server in a private network by DNS rebinding. */
function refuseOtherOrigins({ headers: { origin } }: Message, { baseUrl, authUrl }: McpSettings): void {
  if (origin === undefined || [baseUrl, authUrl].some((own) => new URL(own).origin === origin)) return;
  throw new Problem(403, { code: 'cross_site_request', message: 'Scripts of other sites cannot use this endpoint' });
}

/** The headers that the protocol reads. */
const PROTOCOL_HEADER = /^(?:accept|content-type|mcp-.+)$/;

function toWebRequest({ headers }: Message, address: string): Request {
  const read = Object.entries(headers).filter(([name]) => PROTOCOL_HEADER.test(name)) as [string, string][];
  return new Request(address, { method: 'POST', headers: read });
}

/** Returns the endpoint. The package, which takes 34 MB and half a second, is loaded by the first request. */
export function createMcp(settings: McpSettings): (message: Message, dispatch: Dispatch) => Promise<RawResponse> {
  let loaded: Promise<typeof Sdk> | undefined;
  const tools = createTools();
  const info = { name: 'halcyon', version: settings.version };
  const instructions = instructionsFor(settings);
  return async (request, dispatch) => {
    refuseOtherOrigins(request, settings);
    const parsedBody = readMessage(request);
    const sdk = await (loaded ??= import('@modelcontextprotocol/server'));
    const failures: unknown[] = [];
    const createServer = (): Server => {
      const server = new sdk.Server(info, { capabilities: { tools: {} }, instructions });
      server.setRequestHandler('tools/list', async () => ({ tools: tools.map(({ listed }) => listed) }));
      server.setRequestHandler('tools/call', async ({ params }) => {
        const tool = tools.find(({ listed }) => listed.name === params.name);
        if (tool === undefined)
          throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'There is no such tool');
        try {
          const { value, faults } = tool.check(params.arguments ?? {});
          if (faults.length > 0) throw invalid(...faults);
          return await tool.run(dispatch, value as Input);
        } catch (error) {
          if (error instanceof Problem)
            return { ...textResult(JSON.stringify({ errors: error.faults })), isError: true };
          failures.push(error);
          throw error;
        }
      });
      return server;
    };
    const response = await serve(sdk, createServer, toWebRequest(request, mcpAddressOf(settings.baseUrl)), parsedBody);
    // The package would send the text of an internal error to the client, without a line in the log.
    if (failures.length > 0) throw failures[0];
    const contentType = response.headers.get('content-type');
    return {
      status: response.status,
      headers: { 'Cache-Control': 'no-store', ...(contentType !== null && { 'Content-Type': contentType }) },
      body: await response.text(),
    };
  };
}

/** Serves a message of the version without a handshake (2026-07-28), or of an older one as JSON, which the package answers with a stream. */
async function serve(
  sdk: typeof Sdk,
  createServer: () => Server,
  request: Request,
  parsedBody: unknown,
): Promise<Response> {
  if (!(await sdk.isLegacyRequest(request, parsedBody)))
    return sdk.createMcpHandler(createServer, { legacy: 'reject', maxSubscriptions: 0 }).fetch(request, { parsedBody });
  const server = createServer();
  const transport = new sdk.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  const response = await transport.handleRequest(request, { parsedBody });
  await server.close();
  return response;
}

/** Returns the error of the API with a challenge that names the metadata of this endpoint. */
export function answerMcpProblem(answerProblem: ProblemAnswer, baseUrl: string): ProblemAnswer {
  return (problem, logref, home) => {
    const answer = answerProblem(problem, logref, home);
    const challenge = answer.headers['WWW-Authenticate'];
    if (typeof challenge !== 'string') return answer;
    const [ofApi, own] = [baseUrl, mcpAddressOf(baseUrl)].map(resourceMetadataOf) as [string, string];
    return { ...answer, headers: { ...answer.headers, 'WWW-Authenticate': challenge.replace(ofApi, own) } };
  };
}

/** Describes the endpoint for /docs and /openapi.json. */
export function mcpChapter(baseUrl: string): Chapter {
  const address = mcpAddressOf(baseUrl);
  const message = Type.Object({ jsonrpc: Type.Literal('2.0') });
  return {
    title: 'Agents',
    about: 'The Model Context Protocol: three tools with which an agent reads resources and does what they offer.',
    relations: [],
    endpoints: [
      {
        address,
        method: 'POST',
        title: 'Endpoint for agents',
        summary: 'A message of the Model Context Protocol; the tools are read, actions and do',
        access: 'Access token',
        specification: 'Model Context Protocol, Streamable HTTP',
        takes: { in: 'json', schema: message },
        returns: message,
        fails: 'errors',
        answers: {
          '200': 'The result, also if the API refuses what a tool does',
          '202': 'A notification is accepted',
          '400': 'The message is invalid',
          '401': 'The token is missing, expired or revoked',
          '403': 'The app or its store is suspended, or a script of another site sent the message',
        },
      },
      {
        address: resourceMetadataOf(address),
        method: 'GET',
        title: 'Metadata of the endpoint for agents',
        summary: 'The authorization server whose tokens the endpoint accepts',
        access: 'Anyone',
        specification: 'RFC 9728',
        returns: Type.Object({ resource: Type.String(), authorization_servers: Type.Array(Type.String()) }),
        answers: { '200': 'The metadata' },
      },
    ],
  };
}
