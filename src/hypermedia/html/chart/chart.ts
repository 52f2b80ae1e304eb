/** Renders the charts of a page side by side. */
import type { Charts } from '../../chart.ts';
import { html, type Markup } from '../../markup.ts';
import { curveFigure } from './curve.ts';
import { barsFigure, linesFigure } from './hourly.ts';

/** Returns the charts and their note; false without either. */
export function chartsOf({ curves = [], bars = [], lines = [], note }: Charts = {}): Markup | false {
  const figures: readonly ((id: string) => Markup)[] = [
    ...curves.filter(({ points }) => points.length > 0).map((curve) => (id: string) => curveFigure(curve, id)),
    ...bars.map((chart) => (id: string) => barsFigure(chart, id)),
    ...lines.map((chart) => (id: string) => linesFigure(chart, id)),
  ];
  const remark = note !== undefined && html`<p class="soft">${note}</p>`;
  if (figures.length === 0) return remark;
  return html`<div class="charts">${figures.map((figure, n) => figure(`chart-${n + 1}`))}</div>
    ${remark}`;
}
