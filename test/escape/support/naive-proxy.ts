// A naive proxy without guards: it compares the name in the request as a string, lets the system
// resolve it, and relays bytes. An attack must succeed through it before it is tried on egressd.
import net from 'node:net';
import { startTcp, type WirePosition } from '../../../src/daemons/egressd/testing/wires.ts';

export type NaiveOptions = {
  /** Names it lets through; all when absent. */
  allows?: (host: string) => boolean;
  /** The system's when absent: it also reads 0x7f.1 and 2130706433. */
  lookup?: (host: string) => Promise<string>;
  /** Resolves and checks first, then lets the connect resolve again. */
  checks?: (address: string) => boolean;
};

type Wanted = { host: string; port: number; isTunnel: boolean };

function wantedOf(head: string): Wanted {
  const [method = '', target = ''] = head.split(' ');
  if (method === 'CONNECT') {
    const at = target.lastIndexOf(':');
    const host = target.slice(0, at).replace(/^\[|\]$/g, '');
    return { host, port: Number(target.slice(at + 1)), isTunnel: true };
  }
  const host = /^host: *(.*?)\r$/im.exec(head)?.[1] ?? '';
  const [, name = host, port = '80'] = /^(.*):(\d+)$/.exec(host) ?? [];
  return { host: name.replace(/^\[|\]$/g, ''), port: Number(port), isTunnel: false };
}

async function serve(client: net.Socket, first: Buffer, options: NaiveOptions): Promise<void> {
  const { host, port, isTunnel } = wantedOf(first.toString('latin1'));
  if (options.allows?.(host) === false) return void client.end('HTTP/1.1 403 No\r\n\r\n');
  if (options.checks !== undefined && !options.checks(await options.lookup!(host)))
    return void client.end('HTTP/1.1 403 No\r\n\r\n');
  const address = options.lookup === undefined ? host : await options.lookup(host);
  const target = net.connect(port, address);
  for (const socket of [client, target])
    socket.on('error', () => {
      client.destroy();
      target.destroy();
    });
  target.on('connect', () => {
    if (isTunnel) client.write('HTTP/1.1 200 OK\r\n\r\n');
    else target.write(first);
    client.pipe(target);
    target.pipe(client);
  });
}

export const startNaive = (options: NaiveOptions = {}): Promise<WirePosition> =>
  startTcp((client) => {
    client.once('data', (first: Buffer) => {
      client.pause();
      serve(client, first, options).catch(() => client.destroy());
    });
  });
