import { createServer } from 'node:http';

const leave = () => process.exit(0);

/** The contract of a program under the supervisor, and nothing else. */
export function serve(port: number): void {
  const server = createServer((_request, response) => response.end(String(process.pid)));
  server.listen(port, '127.0.0.1', () => process.send?.({ type: 'ready' }));
  process.once('SIGTERM', leave);
  process.once('disconnect', leave);
}
