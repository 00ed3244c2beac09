/**
 * Shifts the clock of a process of the fault tests by `CLOCK_SHIFT_MS`; the process preloads this
 * file.
 */
const shiftMs = Number(process.env['CLOCK_SHIFT_MS']);
const RealDate = Date;
const now = (): number => RealDate.now() + shiftMs;

globalThis.Date = new Proxy(RealDate, {
  apply: () => new RealDate(now()).toString(),
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as object,
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
});
