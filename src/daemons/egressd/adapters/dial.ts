// A connection to an address that has been checked. There is no name here, so that nothing can be
// looked up a second time.
import net from 'node:net';
import type { Ip } from '../../../policy/hosts.ts';
import { fault } from '../../../wire/errors.ts';

export type Dial = (
  addresses: readonly Ip[],
  port: number,
  signal: AbortSignal,
) => Promise<{ socket: net.Socket; address: string }>;

const TRIES_MAX = 4;

export function makeDial({ timeoutMs }: { timeoutMs: number }): Dial {
  const one = (ip: Ip, port: number, signal: AbortSignal): Promise<net.Socket> =>
    new Promise((resolve, reject) => {
      const socket = net.connect({
        host: ip.text,
        port,
        family: ip.family,
        noDelay: true,
        allowHalfOpen: true,
        keepAlive: true,
      });
      const settle = (error?: Error): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        socket.off('error', settle);
        if (error === undefined) {
          resolve(socket);
          return;
        }
        socket.on('error', () => undefined);
        socket.destroy();
        reject(error);
      };
      const onAbort = (): void => settle(new Error('it was cut'));
      const timer = setTimeout(() => settle(new Error('no answer in time')), timeoutMs);
      socket.once('connect', () => settle());
      socket.once('error', settle);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });

  return async (addresses, port, signal) => {
    let last: unknown;
    for (const ip of inOrder(addresses).slice(0, TRIES_MAX)) {
      try {
        return { socket: await one(ip, port, signal), address: ip.text };
      } catch (error) {
        last = error;
        if (signal.aborted) break;
      }
    }
    const code = (last as NodeJS.ErrnoException).code ?? (last as Error).message;
    throw fault('unreachable', `the host does not take the connection: ${code}`, { cause: last });
  };
}

/** The families in turns, so that one that does not work here is not tried for ever. */
function inOrder(addresses: readonly Ip[]): Ip[] {
  const four = addresses.filter(({ family }) => family === 4);
  const six = addresses.filter(({ family }) => family === 6);
  const turns: Ip[] = [];
  for (let i = 0; i < Math.max(four.length, six.length); i++)
    for (const ip of [four[i], six[i]]) if (ip !== undefined) turns.push(ip);
  return turns;
}
