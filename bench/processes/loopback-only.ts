// Loaded before a peer that would listen on every address: a benchmark opens nothing to the
// network.
import net from 'node:net';

const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (this: net.Server, ...given: unknown[]) {
  const at = typeof given[0] === 'number' ? { port: given[0] } : (given[0] as net.ListenOptions);
  const onListening = given.find((one) => typeof one === 'function') as (() => void) | undefined;
  return listen.call(this, { ...at, host: '127.0.0.1' }, onListening);
} as typeof listen;
