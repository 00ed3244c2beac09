/** Shows the seconds until a time. */
import { useNow } from './times.tsx';

interface CountdownProps {
  /** Time in milliseconds since 1970. */
  untilMs: number;
  /** Text before the seconds. */
  children: string;
}

/** Counts down to a time, in seconds. */
export function Countdown({ untilMs, children }: CountdownProps) {
  const nowMs = useNow(1000);
  const seconds = Math.max(Math.ceil((untilMs - nowMs) / 1000), 0);
  return (
    <span role="timer">
      {children} in {seconds} s.
    </span>
  );
}
