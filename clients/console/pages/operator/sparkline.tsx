/** Small bar chart in a table cell. */
import { oneDecimal } from '../../parts/amounts.tsx';

interface Bar {
  value: number;
  /** Number of failed calls in `value`, drawn in red. */
  failed: number;
}

interface SparklineProps {
  /** Label of the chart for its tooltip and screen readers. The values are added to it. */
  label: string;
  /** Bars, oldest first. The highest bar fills the height of the chart. */
  bars: readonly Bar[];
}

/** Shows the bar chart, or nothing if all values are zero. */
export function Sparkline({ label, bars }: SparklineProps) {
  const maxValue = Math.max(...bars.map(({ value }) => value));
  if (maxValue === 0) return null;
  const values = bars.map(({ value, failed }) =>
    failed === 0 ? oneDecimal.format(value) : `${oneDecimal.format(value)} (${failed} failed)`,
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
          y={1 - value / maxValue}
          width={0.8}
          height={value / maxValue}
        />,
        <rect
          key={`${index} failed`}
          className="failed"
          x={index}
          y={1 - failed / maxValue}
          width={0.8}
          height={failed / maxValue}
        />,
      ])}
    </svg>
  );
}
