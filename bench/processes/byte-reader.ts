// Opens a connection, sends a ClientHello as a TLS client would, then reads or sends until the
// other side closes. Reports the time that took, and the time until the connection was usable.
import net from 'node:net';
import { Duplex } from 'node:stream';
import tls from 'node:tls';
import { sendBytes } from './byte-source.ts';
import { serveCommands } from './commands.ts';

export type ReadOrder = {
  socketPath: string;
  serverName: string;
  /** Sends CONNECT for this target first. */
  connect?: string;
  sends?: boolean;
};
export type ReadResult = { bytes: number; ms: number; readyMs: number };

/** Returns the ClientHello of a TLS client for this server name. */
function helloOf(serverName: string): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({
      read() {},
      write(chunk: Buffer, _, done) {
        resolve(chunk);
        done();
      },
    });
    tls.connect({ socket: wire, servername: serverName }).on('error', () => undefined);
  });
}

async function read({ socketPath, serverName, connect, sends }: ReadOrder): Promise<ReadResult> {
  const hello = await helloOf(serverName);
  const began = performance.now();
  const socket = net.connect(socketPath);
  return new Promise((resolve, reject) => {
    let bytes = 0;
    let readyAt = 0;
    let isOpen = connect === undefined;
    const ready = (): void => {
      readyAt = performance.now();
      socket.write(hello);
      if (sends === true) sendBytes(socket);
    };
    socket.on('connect', () => {
      if (isOpen) ready();
      else socket.write(`CONNECT ${connect} HTTP/1.1\r\nHost: ${connect}\r\n\r\n`);
    });
    socket.on('data', (chunk: Buffer) => {
      if (isOpen) {
        bytes += chunk.length;
        return;
      }
      const text = chunk.toString('latin1');
      if (!text.startsWith('HTTP/1.1 200')) return reject(new Error(text));
      isOpen = true;
      ready();
    });
    socket.on('error', reject);
    socket.on('close', () =>
      resolve({ bytes, ms: performance.now() - readyAt, readyMs: readyAt - began }),
    );
  });
}

serveCommands<ReadOrder>(process.pid, read);
