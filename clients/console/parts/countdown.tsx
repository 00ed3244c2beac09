/** Countdown to a time, in seconds. */
import { useNow } from './times.tsx';

interface CountdownProps {
  /** End of the countdown in Unix ms. */
  untilMs: number;
  /** Text shown before the seconds. */
  children: string;
}

/** Shows `<text> in 12 s.`, and updates it every second. */
export function Countdown({ untilMs, children }: CountdownProps) {
  const nowMs = useNow(1000);
  const seconds = Math.max(Math.ceil((untilMs - nowMs) / 1000), 0);
  return (
    <span role="timer">
      {children} in {seconds} s.
    </span>
  );
}
