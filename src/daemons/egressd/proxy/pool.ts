// Pools a run's HTTP connections. Each was opened by the connector for one name and port, and is
// used for that name and port only.
import http from 'node:http';
import type net from 'node:net';
import type { Duplex } from 'node:stream';
import type { ConnectOptions, Connector, EgressLink } from '../connector.ts';
import type { Destination } from '../rules/match.ts';
import type { EgressRun, TrackedConnection } from '../run.ts';

const FREE_MAX = 16;
const FREE_MS = 15_000;

export type SocketPool = {
  agent: http.Agent;
  connectionFor(socket: net.Socket): TrackedConnection | undefined;
  /** Adds an open connection; the next request to its host and port uses it. */
  offer(dialed: EgressLink): void;
  close(): void;
};

export type PoolRequest = http.RequestOptions & { dest: Destination };
type OnCreated = (error: Error | null, socket: Duplex) => void;

const poolKey = ({ host, port }: Destination): string => `${host.name} ${port}`;

export function makePool({
  run,
  connector,
  connectOptions,
}: {
  run: EgressRun;
  connector: Connector;
  connectOptions: ConnectOptions;
}): SocketPool {
  const connections = new WeakMap<Duplex, TrackedConnection>();
  const offered = new Map<string, EgressLink>();

  const adopt = ({ connection, socket }: EgressLink): net.Socket => {
    connections.set(socket, connection);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => connector.finish(run, connection));
    const { signal } = connection.ending;
    signal.addEventListener('abort', () => socket.destroy());
    if (signal.aborted) socket.destroy();
    return socket;
  };

  const getSocket = async (dest: Destination): Promise<net.Socket> => {
    const ready = offered.get(poolKey(dest));
    offered.delete(poolKey(dest));
    if (ready !== undefined && !ready.socket.destroyed) {
      ready.socket.setTimeout(0);
      return ready.socket;
    }
    return adopt(await connector.connect(run, dest, connectOptions));
  };

  class EgressAgent extends http.Agent {
    override createConnection(options: http.ClientRequestArgs, created?: OnCreated): undefined {
      const { dest } = options as PoolRequest;
      getSocket(dest).then(
        (socket) => created?.(null, socket),
        // Node ignores the socket when there is an error.
        (error: Error) => created?.(error, undefined as unknown as Duplex),
      );
      return undefined;
    }
  }
  const agent = new EgressAgent({ keepAlive: true, maxFreeSockets: FREE_MAX, timeout: FREE_MS });

  return {
    agent,
    connectionFor: (socket) => connections.get(socket),
    offer(dialed) {
      // From now on it carries parsed requests, not a tunnel.
      dialed.connection.kind = 'http';
      offered.get(poolKey(dialed.connection.dest))?.socket.destroy();
      offered.set(poolKey(dialed.connection.dest), dialed);
      // The next request may use another free connection instead.
      adopt(dialed).setTimeout(FREE_MS, () => dialed.socket.destroy());
    },
    close() {
      agent.destroy();
      for (const { socket } of offered.values()) socket.destroy();
    },
  };
}
