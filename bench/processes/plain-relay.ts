// A plain relay in Node: every connection to a Unix socket is piped to one TCP port. The baseline
// for egressd.
import net from 'node:net';
import { serveCommands } from './commands.ts';

export type RelayOrder = { socketPath: string; port: number };

serveCommands<RelayOrder>(process.pid, ({ socketPath, port }) => {
  const server = net.createServer({ allowHalfOpen: true }, (client) => {
    const target = net.connect({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true });
    for (const socket of [client, target])
      socket.on('error', () => {
        client.destroy();
        target.destroy();
      });
    client.pipe(target);
    target.pipe(client);
  });
  return new Promise((resolve) => server.listen(socketPath, () => resolve(true)));
});
