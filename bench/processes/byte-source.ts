// A server that sends many bytes to whoever says something, and one that takes as many; both close
// after the last.
import net from 'node:net';
import { takeOrders } from './orders.ts';

export const STREAM_BYTES = 256 * 1024 * 1024;
const CHUNK = Buffer.alloc(256 * 1024, 7);

export type BytePorts = { source: number; sink: number };

export function pourInto(socket: net.Socket): void {
  let left = STREAM_BYTES;
  const more = (): void => {
    while (left > 0) {
      left -= CHUNK.length;
      if (!socket.write(CHUNK)) return void socket.once('drain', more);
    }
    socket.end();
  };
  more();
}

/** Says one byte when all have come. */
function takeFrom(socket: net.Socket): void {
  let left = STREAM_BYTES;
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left <= 0 && !socket.writableEnded) socket.end('.');
  });
}

function listen(serve: (socket: net.Socket) => void): Promise<number> {
  const server = net.createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => socket.destroy());
    serve(socket);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as net.AddressInfo).port));
  });
}

if (import.meta.main) {
  const source = await listen((socket) => socket.once('data', () => pourInto(socket)));
  const ports: BytePorts = { source, sink: await listen(takeFrom) };
  takeOrders(ports, async () => ports);
}
