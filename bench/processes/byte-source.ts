// A server that sends many bytes to each client that sends something, and one that receives as
// many; both close after the last.
import net from 'node:net';
import { serveCommands } from './commands.ts';

export const STREAM_BYTES = 256 * 1024 * 1024;
const CHUNK = Buffer.alloc(256 * 1024, 7);

export type BytePorts = { source: number; sink: number };

export function sendBytes(socket: net.Socket): void {
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

/** Sends one byte once all have arrived. */
function receiveBytes(socket: net.Socket): void {
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
  const source = await listen((socket) => socket.once('data', () => sendBytes(socket)));
  const ports: BytePorts = { source, sink: await listen(receiveBytes) };
  serveCommands(ports, async () => ports);
}
