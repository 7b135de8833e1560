// Test helper: servers to reach, a client that sends exactly the given bytes, and a stand-in for
// the relay in a box.
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import tls from 'node:tls';
import { CERT, KEY } from './cert.ts';

export type WirePosition = { port: number; close(): Promise<void> };

async function listening(server: net.Server, host = '127.0.0.1'): Promise<WirePosition> {
  const open = new Set<net.Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

export const startTcp = (serve: (socket: net.Socket) => void): Promise<WirePosition> =>
  listening(net.createServer({ allowHalfOpen: true }, serve));

export const startHttp = (serve: http.RequestListener, host?: string): Promise<WirePosition> =>
  listening(http.createServer(serve), host);

export const startTls = (serve: (socket: tls.TLSSocket) => void): Promise<WirePosition> =>
  listening(tls.createServer({ cert: CERT, key: KEY }, serve));

/** Relays every connection to the run's socket, as the listener in a box does. */
export const startRelay = (socketPath: string): Promise<WirePosition> =>
  startTcp((client) => {
    const proxy = net.connect(socketPath);
    proxy.on('error', () => client.destroy());
    client.on('error', () => proxy.destroy());
    client.pipe(proxy);
    proxy.pipe(client);
  });

export type TestWire = {
  socket: net.Socket;
  send(bytes: string | Buffer): void;
  /** Resolves to everything received so far, once it contains `what`. */
  until(what: string | RegExp): Promise<string>;
  /** Resolves to everything received, once the other side has closed. */
  closed(): Promise<string>;
};

export async function connectTo(path: string | number): Promise<TestWire> {
  const socket = typeof path === 'number' ? net.connect(path, '127.0.0.1') : net.connect(path);
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  let text = '';
  let isClosed = false;
  let look = (): void => {};
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    look();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    isClosed = true;
    look();
  });
  const wait = (isThere: () => boolean, what: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${what} did not come; what came: ${text.slice(0, 500)}`)),
        10_000,
      );
      look = () => {
        if (!isThere() && !isClosed) return;
        clearTimeout(timer);
        if (isThere()) resolve(text);
        else reject(new Error(`closed before ${what}; what came: ${text.slice(0, 500)}`));
      };
      look();
    });
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    until: (what) => {
      const fits = () => (typeof what === 'string' ? text.includes(what) : what.test(text));
      return wait(fits, String(what));
    },
    closed: () => wait(() => isClosed, 'the end'),
  };
}

export type WireResponse = { status: number; headers: string; body: string };

export function readAnswer(text: string): WireResponse {
  const end = text.indexOf('\r\n\r\n');
  const headers = text.slice(0, end);
  return { status: Number(headers.split(' ')[1]), headers, body: text.slice(end + 4) };
}

/** Sends the bytes and reads until the other side closes. */
export async function exchange(
  path: string | number,
  bytes: string | Buffer,
): Promise<WireResponse> {
  const wire = await connectTo(path);
  wire.send(bytes);
  const text = await wire.closed();
  return readAnswer(text);
}

export const parseErrorBody = ({
  body,
}: WireResponse): { code: string; message: string; hint: string } =>
  (JSON.parse(body) as { error: { code: string; message: string; hint: string } }).error;

/** Sends CONNECT through a proxy; the wire is the tunnel if the status is 200. */
export async function connectThrough(
  path: string | number,
  target: string,
): Promise<{ wire: TestWire; answer: WireResponse }> {
  const wire = await connectTo(path);
  wire.send(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  const text = await wire.until(/\r\n\r\n/);
  const answer = readAnswer(text);
  return { wire, answer: answer.status === 200 ? answer : readAnswer(await wire.closed()) };
}

/** Starts TLS to `serverName` over an open tunnel. */
export function speakTls(wire: TestWire, serverName: string): Promise<tls.TLSSocket> {
  wire.socket.removeAllListeners('data');
  return new Promise((resolve, reject) => {
    const secured = tls.connect({ socket: wire.socket, servername: serverName, ca: CERT });
    secured.once('secureConnect', () => resolve(secured));
    secured.once('error', reject);
    secured.once('close', () => reject(new Error('closed')));
  });
}
