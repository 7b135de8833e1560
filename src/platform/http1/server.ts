// An HTTP/1.1 server on node:net: listens, and limits the number and time of its connections. It
// does less than node:http and costs a fraction of it; decisions/0019 has the reasons.
import net from 'node:net';
import { fault } from '../../wire/errors.ts';
import { Connection, type ConnectionHost } from './connection.ts';
import type { Exchange } from './exchange.ts';

export type ServerLimits = {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How often connections are checked for the two above. */
  checkIntervalMs: number;
};

export const SERVER_LIMITS: ServerLimits = {
  headersTimeoutMs: 15_000,
  requestTimeoutMs: 120_000,
  checkIntervalMs: 5_000,
};
const IDLE_TIMEOUT_MS = 65_000;
const CLOSE_WAIT_MS = 2_000;

export type HttpServer = {
  listen(address: { path: string } | { host: string; port: number }): Promise<void>;
  /** Returns the TCP port. */
  port(): number;
  /** Accepts no new requests; responses in progress have this long to end. */
  close(waitMs?: number): Promise<void>;
};

export function makeServer(options: {
  onRequest(exchange: Exchange): void;
  connectionsMax: number;
  limits?: ServerLimits | undefined;
}): HttpServer {
  const { limits = SERVER_LIMITS } = options;
  const connections = new Set<Connection>();
  let tick = 0;
  let isClosing = false;
  const host: ConnectionHost = {
    onRequest: options.onRequest,
    onClose: (connection) => connections.delete(connection),
    isClosing: () => isClosing,
    tick: () => tick,
  };
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    connections.add(new Connection(socket, host)),
  );
  server.maxConnections = options.connectionsMax;
  const toTicks = (ms: number): number => Math.ceil(ms / limits.checkIntervalMs);
  const ticksMax = {
    idle: toTicks(IDLE_TIMEOUT_MS),
    head: toTicks(limits.headersTimeoutMs),
    request: toTicks(limits.requestTimeoutMs),
  };
  const timer = setInterval(() => {
    tick++;
    for (const connection of connections) connection.checkTime(ticksMax);
  }, limits.checkIntervalMs);
  timer.unref();

  return {
    listen: (address) =>
      new Promise((resolve, reject) => {
        server.once('error', (error: NodeJS.ErrnoException) => {
          clearInterval(timer);
          const what = 'path' in address ? address.path : `port ${address.port}`;
          const isInUse = error.code === 'EADDRINUSE';
          reject(isInUse ? fault('conflict', `${what} is in use`, { cause: error }) : error);
        });
        server.listen(address, () => resolve());
      }),
    port: () => (server.address() as net.AddressInfo).port,
    close: (waitMs = CLOSE_WAIT_MS) =>
      new Promise((resolve) => {
        isClosing = true;
        const last = setTimeout(() => {
          for (const { socket } of connections) socket.destroy();
        }, waitMs);
        last.unref();
        server.close(() => {
          clearTimeout(last);
          clearInterval(timer);
          resolve();
        });
        for (const connection of connections) connection.closing();
      }),
  };
}
