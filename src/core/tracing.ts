/**
 * The trace context that a publish passes on to its deliveries (W3C Trace Context, level 1), and the spans of OpenTelemetry, which exist if
 * the operator has registered an SDK.
 */
import { hash } from 'node:crypto';
import {
  createTraceState,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type ProxyTracerProvider,
  type Span,
  type SpanContext,
  type TracerProvider,
} from '@opentelemetry/api';
import { isHeaderValue } from './header.ts';

/** A `traceparent` of version 00, and after a blank the `tracestate` if there is one. */
export type TraceContext = string;

// The trace context.

const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})-[0-9a-f]([0-9a-f])(-.*)?$/;
/** A longer `tracestate` is dropped; §3.3.1.5 asks for at least this length. */
const STATE_MAX_CHARACTERS = 512;
/** Positions in a `traceparent`: `00-<trace id>-<span id>-<flags>`. */
const [TRACE_ID_AT, SPAN_ID_AT, SPAN_ID_END, PARENT_LENGTH] = [3, 36, 52, 55];

/**
 * Returns the context in the headers of a request; null if there is none or it is invalid (§4.3: the trace is not continued then, and the
 * request is served). A later version is read as far as 00 goes, and of its flags only *sampled* is kept (§3.2.3, §3.2.4).
 */
export function readTraceContext(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): TraceContext | null {
  const { traceparent, tracestate } = headers;
  if (typeof traceparent !== 'string') return null;
  const [, version, ids, flags, further] = TRACEPARENT.exec(traceparent) ?? [];
  if (ids === undefined || flags === undefined || (version === '00' && further !== undefined)) return null;
  const isKept =
    typeof tracestate === 'string' && tracestate.length <= STATE_MAX_CHARACTERS && isHeaderValue(tracestate);
  return `00-${ids}-0${Number.parseInt(flags, 16) & 1}${isKept && tracestate !== '' ? ` ${tracestate}` : ''}`;
}

export function traceIdOf(context: TraceContext | null | undefined): string | undefined {
  return context?.slice(TRACE_ID_AT, TRACE_ID_AT + 32);
}

/** Returns the context with another span id. */
export function withSpanId(context: TraceContext, spanId: string): TraceContext {
  return context.slice(0, SPAN_ID_AT) + spanId + context.slice(SPAN_ID_END);
}

/**
 * Returns the context with a span id that `seed` decides, as a random one would be different for each attempt. An attempt can then be shown
 * as it was sent, and stores nothing for it.
 */
export function childContext(context: TraceContext, seed: string): TraceContext {
  return withSpanId(context, hash('sha256', `${context} ${seed}`).slice(0, SPAN_ID_END - SPAN_ID_AT));
}

/** Returns the headers of a request, names and values alternating. */
export function traceHeaders(context: TraceContext): string[] {
  const state = context.slice(PARENT_LENGTH + 1);
  return ['traceparent', context.slice(0, PARENT_LENGTH), ...(state === '' ? [] : ['tracestate', state])];
}

// Spans, as the semantic conventions of OpenTelemetry name them.

const proxy = trace.getTracerProvider() as ProxyTracerProvider;
/** Absent without an SDK. The operator registers it by `--import`, before this module is loaded. */
const tracer = proxy.getDelegateTracer('halcyon');

/** Without an SDK no span is begun: those of the API do nothing, but take as long as a whole attempt may. */
export const isTracing = tracer !== undefined;

function spanContextOf(context: TraceContext): SpanContext {
  const [traceId, spanId] = [context.slice(TRACE_ID_AT, SPAN_ID_AT - 1), context.slice(SPAN_ID_AT, SPAN_ID_END)];
  const traceState = createTraceState(context.slice(PARENT_LENGTH + 1));
  return { traceId, spanId, traceFlags: Number(context[PARENT_LENGTH - 1]), traceState, isRemote: true };
}

/** `parent`: null begins a trace. `links`: other spans that it belongs to. */
type NewSpan = {
  name: string;
  kind: keyof typeof SpanKind;
  parent: TraceContext | null;
  links?: readonly TraceContext[];
  attributes: Attributes;
};

/** Begins a span; undefined without an SDK. */
export function startSpan({ name, kind, parent, links = [], attributes }: NewSpan): Span | undefined {
  const within = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, spanContextOf(parent));
  const options = { kind: SpanKind[kind], links: links.map((one) => ({ context: spanContextOf(one) })), attributes };
  return tracer?.startSpan(name, options, within);
}

/** Returns the context of what the span causes. */
export function contextOf(span: Span): TraceContext {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  const state = traceState?.serialize() ?? '';
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}${state === '' ? '' : ` ${state}`}`;
}

/** Ends a span; `error` is the low-cardinality name of what failed, if something did. */
export function endSpan(span: Span | undefined, error: string | undefined, attributes: Attributes = {}): void {
  if (span === undefined) return;
  span.setAttributes(error === undefined ? attributes : { ...attributes, 'error.type': error });
  if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

/** Sends the spans that the SDK has not sent yet, before the process ends. */
export async function flushSpans(): Promise<void> {
  const provider: TracerProvider & { forceFlush?: () => Promise<void> } = proxy.getDelegate();
  await provider.forceFlush?.();
}
