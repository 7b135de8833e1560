// An HTTP/1.1 server on node:net: listens, counts its connections and looks after their time. It
// does much less than node:http and costs a fraction of it; decisions/0019 has the reasons.
import net from 'node:net';
import { fault } from '../../wire/errors.ts';
import { Connection, type ConnectionHost } from './connection.ts';
import type { Exchange } from './exchange.ts';

export type ServerLimits = {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How often connections are looked at for the two above. */
  checkEveryMs: number;
};

export const SERVER_LIMITS: ServerLimits = {
  headersTimeoutMs: 15_000,
  requestTimeoutMs: 120_000,
  checkEveryMs: 5_000,
};
const IDLE_TIMEOUT_MS = 65_000;
const CLOSE_WAIT_MS = 2_000;

export type HttpServer = {
  listen(where: { path: string } | { host: string; port: number }): Promise<void>;
  /** The port, for one that listens on one. */
  port(): number;
  /** Takes nothing new; answers on their way get so long to arrive. */
  close(waitMs?: number): Promise<void>;
};

export function makeServer(options: {
  onRequest(exchange: Exchange): void;
  connectionsMax: number;
  limits?: ServerLimits | undefined;
}): HttpServer {
  const { limits = SERVER_LIMITS } = options;
  const connections = new Set<Connection>();
  let turn = 0;
  let isClosing = false;
  const host: ConnectionHost = {
    onRequest: options.onRequest,
    onClose: (connection) => connections.delete(connection),
    isClosing: () => isClosing,
    turn: () => turn,
  };
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    connections.add(new Connection(socket, host)),
  );
  server.maxConnections = options.connectionsMax;
  const turns = (ms: number): number => Math.ceil(ms / limits.checkEveryMs);
  const most = {
    idle: turns(IDLE_TIMEOUT_MS),
    head: turns(limits.headersTimeoutMs),
    request: turns(limits.requestTimeoutMs),
  };
  const timer = setInterval(() => {
    turn++;
    for (const connection of connections) connection.checkTime(most);
  }, limits.checkEveryMs);
  timer.unref();

  return {
    listen: (where) =>
      new Promise((resolve, reject) => {
        server.once('error', (error: NodeJS.ErrnoException) => {
          clearInterval(timer);
          const what = 'path' in where ? where.path : `port ${where.port}`;
          const isTaken = error.code === 'EADDRINUSE';
          reject(isTaken ? fault('conflict', `${what} is in use`, { cause: error }) : error);
        });
        server.listen(where, () => resolve());
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
