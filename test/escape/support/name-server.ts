// A name server on loopback that returns what a test configures, and records the queries.
import dgram from 'node:dgram';
import type { AddressInfo } from 'node:net';

export type NameServer = {
  /** `127.0.0.1:port` */
  address: string;
  queries: string[];
  close(): void;
};

/** IPv4 addresses for a name; undefined: no response at all; empty: no such name. */
export type NameResolver = (name: string, times: number) => string[] | undefined;

function readName(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let size = message[at]!; size > 0; size = message[at]!) {
    labels.push(message.subarray(at + 1, at + 1 + size).toString('latin1'));
    at += 1 + size;
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 };
}

function encodeResponse(message: Buffer, addresses: readonly string[], end: number): Buffer {
  const head = Buffer.from(message.subarray(0, end));
  head.writeUInt16BE(addresses.length === 0 ? 0x8183 : 0x8180, 2);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const rows = addresses.map((text) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...text.split('.').map(Number)]),
  );
  return Buffer.concat([head, ...rows]);
}

export async function startNameServer(resolve: NameResolver): Promise<NameServer> {
  const socket = dgram.createSocket('udp4');
  const queries: string[] = [];
  const times = new Map<string, number>();
  socket.on('message', (message, from) => {
    const { name, type, end } = readName(message);
    if (type !== 1) return socket.send(encodeResponse(message, [], end), from.port, from.address);
    queries.push(name);
    const count = times.get(name) ?? 0;
    times.set(name, count + 1);
    const addresses = resolve(name, count);
    if (addresses !== undefined)
      socket.send(encodeResponse(message, addresses, end), from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  const { port } = socket.address() as AddressInfo;
  return { address: `127.0.0.1:${port}`, queries, close: () => socket.close() };
}
