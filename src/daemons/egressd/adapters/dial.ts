// Dials addresses that have been checked. It takes no names, so nothing can be resolved twice.
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
  const dialAddress = (ip: Ip, port: number, signal: AbortSignal): Promise<net.Socket> =>
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
      const onAbort = (): void => settle(new Error('aborted'));
      const timer = setTimeout(() => settle(new Error('connect timed out')), timeoutMs);
      socket.once('connect', () => settle());
      socket.once('error', settle);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });

  return async (addresses, port, signal) => {
    let last: unknown;
    for (const ip of interleaveFamilies(addresses).slice(0, TRIES_MAX)) {
      try {
        return { socket: await dialAddress(ip, port, signal), address: ip.text };
      } catch (error) {
        last = error;
        if (signal.aborted) break;
      }
    }
    const code = (last as NodeJS.ErrnoException).code ?? (last as Error).message;
    throw fault('unreachable', `the host did not accept the connection: ${code}`, { cause: last });
  };
}

/** Alternates the families, in case one of them does not work on this host. */
function interleaveFamilies(addresses: readonly Ip[]): Ip[] {
  const four = addresses.filter(({ family }) => family === 4);
  const six = addresses.filter(({ family }) => family === 6);
  const ordered: Ip[] = [];
  for (let i = 0; i < Math.max(four.length, six.length); i++)
    for (const ip of [four[i], six[i]]) if (ip !== undefined) ordered.push(ip);
  return ordered;
}
