/** A tracer provider for `--import`, which prints each span at its end as a line of JSON. */
import { randomBytes } from 'node:crypto';
import { trace, type Attributes, type Span, type Tracer } from '@opentelemetry/api';

const idOf = (bytes: number): string => randomBytes(bytes).toString('hex');

const startSpan: Tracer['startSpan'] = (name, { kind, attributes: given = {}, links = [] } = {}, context) => {
  const parent = context && trace.getSpanContext(context);
  const attributes: Attributes = { ...given };
  const { traceId = idOf(16), traceFlags = 1, traceState } = parent ?? {};
  const own = { traceId, spanId: idOf(8), traceFlags, ...(traceState && { traceState }) };
  let status = 0;
  const span: Partial<Span> = {
    spanContext: () => own,
    setAttributes: (more) => {
      Object.assign(attributes, more);
      return span as Span;
    },
    setStatus: ({ code }) => {
      status = code;
      return span as Span;
    },
    end: () => {
      const of = {
        traceId,
        spanId: own.spanId,
        parent: parent?.spanId,
        links: links.map(({ context: to }) => to.spanId),
      };
      process.stderr.write(`${JSON.stringify({ span: name, kind, ...of, attributes, status })}\n`);
    },
  };
  return span as Span;
};

const provider = {
  getTracer: () => ({ startSpan }) as Partial<Tracer> as Tracer,
  forceFlush: async () => void process.stderr.write('spans flushed\n'),
};
trace.setGlobalTracerProvider(provider);
