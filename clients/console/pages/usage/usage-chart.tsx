/** Chart of credits by day. The table on the same page shows the same numbers. */
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { compactNumber } from '../../parts/amounts.tsx';
import { formatUtcDay } from '../../parts/times.tsx';
import type { DailySums } from './usage-sums.ts';

/** Type of chart. */
export type ChartType = 'stacked' | 'lines';

interface UsageChartProps {
  sums: DailySums;
  chartType: ChartType;
  /** Receives the index of the day under the pointer, or null if the pointer is elsewhere. */
  onPoint: (day: number | null) => void;
}

const heightPixels = 260;
const halfDaySeconds = 43_200;

/** Shows the chart of credits by day. */
export function UsageChart({ sums, chartType, onPoint }: UsageChartProps) {
  const container = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const { current } = container;
    return current ? drawChart(current, { sums, chartType, onPoint }) : undefined;
  }, [sums, chartType, onPoint]);
  return (
    <div
      ref={container}
      className="chart"
      role="img"
      aria-label="Chart of credits by day; the table below shows the same numbers"
    >
      {/* The chart reads its colors from these elements. The colors depend on the theme. */}
      {sums.series.map(({ id }, index) => (
        <i key={id} className={`series-${index}`} hidden />
      ))}
    </div>
  );
}

function drawChart(container: HTMLElement, props: UsageChartProps): () => void {
  const plot = new uPlot(buildOptions(container, props), buildChartData(props), container);
  const resizeObserver = new ResizeObserver(([entry]) => {
    if (entry) plot.setSize({ width: entry.contentRect.width, height: heightPixels });
  });
  resizeObserver.observe(container);
  const colorScheme = matchMedia('(prefers-color-scheme: dark)');
  const redraw = (): void => plot.redraw();
  colorScheme.addEventListener('change', redraw);
  const themeObserver = new MutationObserver(redraw);
  themeObserver.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  return () => {
    resizeObserver.disconnect();
    themeObserver.disconnect();
    colorScheme.removeEventListener('change', redraw);
    plot.destroy();
  };
}

/**
 * Returns the data points. In a stacked chart, each series is added to the series below it, and the
 * topmost series comes first, because it is drawn behind the others.
 */
function buildChartData({ sums: { days, series }, chartType }: UsageChartProps): uPlot.AlignedData {
  const seconds = days.map((day) => Date.parse(day) / 1000);
  const creditsBySeries = series.map(({ credits }) => credits);
  if (chartType === 'lines') return [seconds, ...creditsBySeries];
  const sumsBelow = days.map(() => 0);
  const stacked = creditsBySeries.map((credits) =>
    credits.map((amount, day) => (sumsBelow[day] = (sumsBelow[day] ?? 0) + amount)),
  );
  return [seconds, ...stacked.toReversed()];
}

function buildOptions(
  container: HTMLElement,
  { sums, chartType, onPoint }: UsageChartProps,
): uPlot.Options {
  const color = (index: number): string => {
    const colorElement = container.querySelector(`.series-${index}`);
    return colorElement ? getComputedStyle(colorElement).color : 'gray';
  };
  const axis = {
    stroke: () => getComputedStyle(container).color,
    grid: { stroke: () => getComputedStyle(container).borderTopColor, width: 1 },
    ticks: { show: false },
  };
  const indexes = sums.series.map((_, index) => index);
  const lines = indexes.map((index) => ({ stroke: () => color(index), width: 2 }));
  const bars = indexes.toReversed().map((index) => ({
    fill: () => color(index),
    width: 0,
    points: { show: false },
    ...(uPlot.paths.bars && { paths: uPlot.paths.bars({ size: [0.72, 48] }) }),
  }));
  return {
    width: container.clientWidth,
    height: heightPixels,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: chartType === 'lines' } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    scales: {
      x: { range: (_, min, max) => [min - halfDaySeconds, max + halfDaySeconds] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        values: (_, ticks) => ticks.map((seconds) => formatUtcDay(seconds * 1000)),
      },
      { ...axis, values: (_, ticks) => ticks.map((tick) => compactNumber.format(tick)) },
    ],
    series: [{}, ...(chartType === 'lines' ? lines : bars)],
    hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
  };
}
