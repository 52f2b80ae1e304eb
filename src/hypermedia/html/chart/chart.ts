/** The charts of a page, one beside the other. */
import type { Charts } from '../../chart.ts';
import { html, type Markup } from '../../markup.ts';
import { curveFigure } from './curve.ts';
import { barsFigure, linesFigure } from './hourly.ts';

/** Nothing where there is nothing to draw and nothing to say. */
export const chartsOf = ({ curves = [], bars = [], lines = [], note }: Charts = {}): Markup | false => {
  const drawn: readonly ((id: string) => Markup)[] = [
    ...curves.filter(({ points }) => points.length > 0).map((curve) => (id: string) => curveFigure(curve, id)),
    ...bars.map((chart) => (id: string) => barsFigure(chart, id)),
    ...lines.map((chart) => (id: string) => linesFigure(chart, id)),
  ];
  const said = note !== undefined && html`<p class="soft">${note}</p>`;
  if (drawn.length === 0) return said;
  return html`<div class="charts">${drawn.map((draw, n) => draw(`chart-${n + 1}`))}</div>
    ${said}`;
};
