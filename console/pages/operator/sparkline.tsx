/** Small bar chart in a table cell. */

interface Bar {
  value: number;
  /** Number of failed calls in `value`, drawn in red. */
  failed: number;
}

interface SparklineProps {
  /** Start of the chart's text for screen readers and the tooltip. The values follow it. */
  label: string;
  /** Bars, oldest first. The highest bar fills the height of the chart. */
  bars: readonly Bar[];
}

/** Shows the bars, or nothing if all values are zero. */
export function Sparkline({ label, bars }: SparklineProps) {
  const max = Math.max(...bars.map(({ value }) => value));
  if (max === 0) return null;
  const values = bars.map(({ value, failed }) =>
    failed === 0 ? rounded.format(value) : `${rounded.format(value)} (${failed} failed)`,
  );
  const text = `${label}: ${values.join(', ')}`;
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${bars.length} 1`}
      preserveAspectRatio="none"
      role="img"
      aria-label={text}
    >
      <title>{text}</title>
      {bars.flatMap(({ value, failed }, index) => [
        <rect
          key={`${index} all`}
          x={index}
          y={1 - value / max}
          width={0.8}
          height={value / max}
        />,
        <rect
          key={`${index} failed`}
          className="failed"
          x={index}
          y={1 - failed / max}
          width={0.8}
          height={failed / max}
        />,
      ])}
    </svg>
  );
}

const rounded = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
