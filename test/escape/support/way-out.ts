// Shared set-up of egress attacks: a secret on this host that must stay unreachable, a page that
// some may fetch, a lying name server, and an egressd whose public addresses map to this machine.
import assert from 'node:assert/strict';
import net from 'node:net';
import { type EgressdTestHost, startHost } from '../../../src/daemons/egressd/testing/host.ts';
import {
  parseErrorBody,
  startHttp,
  type WirePosition,
  type WireResponse,
} from '../../../src/daemons/egressd/testing/wires.ts';
import type { EgressRule } from '../../../src/wire/egressd.ts';
import { type NaiveOptions, startNaive } from './naive-proxy.ts';
import { type NameServer, startNameServer } from './name-server.ts';

export const SECRET = 'the secret of the host';
export const PUBLIC = '93.184.216.34';

export const get = (authority: string, path = '/', host = authority) =>
  `GET http://${authority}${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;

export type WayOut = {
  secret: WirePosition;
  web: WirePosition;
  /** Requests that the page received. */
  seen: string[];
  host: EgressdTestHost;
  /** Addresses that egressd dialled, as `address port`. */
  dialled: string[];
  names: NameServer;
  /** Where public addresses of the tests lead: nothing leaves this machine. */
  publicPorts: Map<string, () => number>;
  /** Closed at the end. */
  places: { close(): Promise<void> }[];
  /** The socket of a new run with these rules; forgets what was seen and dialled. */
  open(allow: EgressRule[]): Promise<string>;
  everywhere(name: string): EgressRule[];
  close(): Promise<void>;
};

function says(name: string, times: number): string[] | undefined {
  if (name === 'rebind.test') return [times === 0 ? PUBLIC : '127.0.0.1'];
  if (name === 'mixed.test') return [PUBLIC, '127.0.0.1'];
  if (name === 'loop.test') return ['127.0.0.1'];
  if (name === 'lan.test') return ['192.168.1.1'];
  if (name === 'meta.test') return ['169.254.169.254'];
  if (name === 'slow.test') return undefined;
  return name.endsWith('good.test') ? [PUBLIC] : [];
}

export async function startWayOut(): Promise<WayOut> {
  const secret = await startHttp((_, response) => response.end(SECRET));
  const web = await startHttp((request, response) => {
    way.seen.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`);
    request.resume();
    request.on('end', () => response.end(`page of ${request.headers.host}`));
  });
  const names = await startNameServer(says);
  const publicPorts = new Map([[PUBLIC, () => web.port]]);
  const host = await startHost({
    config: {
      dns_servers: [names.address],
      // Longer than a busy machine keeps anybody from answering.
      dns_timeout_ms: 3_000,
      head_timeout_ms: 2_000,
      connections_per_run_max: 16,
      allow_private: ['169.254.169.254:80', '[fd00:ec2::254]:80', 'meta.test:80', '0.0.0.0:80'],
    },
    async dial(addresses, port) {
      way.dialled.push(...addresses.map(({ text }) => `${text} ${port}`));
      const to = publicPorts.get(addresses[0]!.text)?.() ?? port;
      const socket = net.connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
      return { socket, address: addresses[0]!.text };
    },
  });
  let made = 0;
  const way: WayOut = {
    secret,
    web,
    host,
    names,
    publicPorts,
    places: [secret, web],
    seen: [],
    dialled: [],
    async open(allow) {
      way.dialled = [];
      way.seen = [];
      return (await host.open(`attack ${made++}`, allow)).socket;
    },
    everywhere: (name) =>
      [80, 443, secret.port, web.port].map((port): EgressRule => ({ host: name, port })),
    async close() {
      await host.stop();
      names.close();
      for (const place of way.places) await place.close();
    },
  };
  return way;
}

/** The same attack with the guards off. */
export async function unguarded<T>(
  options: NaiveOptions,
  attack: (port: number) => Promise<T>,
): Promise<T> {
  const proxy = await startNaive(options);
  try {
    return await attack(proxy.port);
  } finally {
    await proxy.close();
  }
}

export function assertRefused(answer: WireResponse, code = 'denied'): void {
  assert.equal(parseErrorBody(answer).code, code, answer.body);
  assert.notEqual(parseErrorBody(answer).hint, '');
}
