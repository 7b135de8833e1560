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

export type EgressSetup = {
  secret: WirePosition;
  web: WirePosition;
  /** Requests that the page received. */
  seen: string[];
  host: EgressdTestHost;
  /** Addresses that egressd dialled, as `address port`. */
  dialled: string[];
  names: NameServer;
  /** Local ports that public addresses map to: nothing leaves this machine. */
  publicPorts: Map<string, () => number>;
  /** Closed at the end. */
  servers: { close(): Promise<void> }[];
  /** Returns the socket of a new run with these rules; resets `seen` and `dialled`. */
  open(allow: EgressRule[]): Promise<string>;
  everywhere(name: string): EgressRule[];
  close(): Promise<void>;
};

function resolveName(name: string, times: number): string[] | undefined {
  if (name === 'rebind.test') return [times === 0 ? PUBLIC : '127.0.0.1'];
  if (name === 'mixed.test') return [PUBLIC, '127.0.0.1'];
  if (name === 'loop.test') return ['127.0.0.1'];
  if (name === 'lan.test') return ['192.168.1.1'];
  if (name === 'meta.test') return ['169.254.169.254'];
  if (name === 'slow.test') return undefined;
  return name.endsWith('good.test') ? [PUBLIC] : [];
}

export async function startEgressSetup(): Promise<EgressSetup> {
  const secret = await startHttp((_, response) => response.end(SECRET));
  const web = await startHttp((request, response) => {
    setup.seen.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`);
    request.resume();
    request.on('end', () => response.end(`page of ${request.headers.host}`));
  });
  const names = await startNameServer(resolveName);
  const publicPorts = new Map([[PUBLIC, () => web.port]]);
  const host = await startHost({
    config: {
      dns_servers: [names.address],
      // Longer than a busy machine delays a response.
      dns_timeout_ms: 3_000,
      head_timeout_ms: 2_000,
      connections_per_run_max: 16,
      allow_private: ['169.254.169.254:80', '[fd00:ec2::254]:80', 'meta.test:80', '0.0.0.0:80'],
    },
    async dial(addresses, port) {
      setup.dialled.push(...addresses.map(({ text }) => `${text} ${port}`));
      const to = publicPorts.get(addresses[0]!.text)?.() ?? port;
      const socket = net.connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
      return { socket, address: addresses[0]!.text };
    },
  });
  let made = 0;
  const setup: EgressSetup = {
    secret,
    web,
    host,
    names,
    publicPorts,
    servers: [secret, web],
    seen: [],
    dialled: [],
    async open(allow) {
      setup.dialled = [];
      setup.seen = [];
      return (await host.open(`attack ${made++}`, allow)).socket;
    },
    everywhere: (name) =>
      [80, 443, secret.port, web.port].map((port): EgressRule => ({ host: name, port })),
    async close() {
      await host.stop();
      names.close();
      for (const server of setup.servers) await server.close();
    },
  };
  return setup;
}

/** Runs the attack through a proxy without guards. */
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

export function assertRefused(response: WireResponse, code = 'denied'): void {
  assert.equal(parseErrorBody(response).code, code, response.body);
  assert.notEqual(parseErrorBody(response).hint, '');
}
