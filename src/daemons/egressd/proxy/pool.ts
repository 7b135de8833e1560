// The HTTP connections of one run to the places it talks to. Each was made by the gate for one name
// and port and is used for that name and port only.
import http from 'node:http';
import type net from 'node:net';
import type { Duplex } from 'node:stream';
import type { ConnectOptions, Connector, Reached } from '../connector.ts';
import type { Wanted } from '../rules/match.ts';
import type { EgressRun, TrackedConnection } from '../run.ts';

const FREE_MAX = 16;
const FREE_MS = 15_000;

export type SocketPool = {
  agent: http.Agent;
  connectionOf(socket: net.Socket): TrackedConnection | undefined;
  /** A connection that exists already; the next request to its place takes it. */
  offer(reached: Reached): void;
  close(): void;
};

export type PoolRequest = http.RequestOptions & { wanted: Wanted };
type Created = (error: Error | null, socket: Duplex) => void;

const placeOf = ({ host, port }: Wanted): string => `${host.name} ${port}`;

export function makePool({
  run,
  gate,
  asked,
}: {
  run: EgressRun;
  gate: Connector;
  asked: ConnectOptions;
}): SocketPool {
  const known = new WeakMap<Duplex, TrackedConnection>();
  const offered = new Map<string, Reached>();

  const adopt = ({ connection, socket }: Reached): net.Socket => {
    known.set(socket, connection);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => gate.finish(run, connection));
    const { signal } = connection.ending;
    signal.addEventListener('abort', () => socket.destroy());
    if (signal.aborted) socket.destroy();
    return socket;
  };

  const make = async (wanted: Wanted): Promise<net.Socket> => {
    const given = offered.get(placeOf(wanted));
    offered.delete(placeOf(wanted));
    if (given !== undefined && !given.socket.destroyed) {
      given.socket.setTimeout(0);
      return given.socket;
    }
    return adopt(await gate.reach(run, wanted, asked));
  };

  class EgressAgent extends http.Agent {
    override createConnection(options: http.ClientRequestArgs, created?: Created): undefined {
      const { wanted } = options as PoolRequest;
      make(wanted).then(
        (socket) => created?.(null, socket),
        // Node looks at the error first and never at the socket beside it.
        (error: Error) => created?.(error, undefined as unknown as Duplex),
      );
      return undefined;
    }
  }
  const agent = new EgressAgent({ keepAlive: true, maxFreeSockets: FREE_MAX, timeout: FREE_MS });

  return {
    agent,
    connectionOf: (socket) => known.get(socket),
    offer(reached) {
      // From now on it carries requests that are read, not a tunnel.
      reached.connection.kind = 'http';
      offered.get(placeOf(reached.connection.wanted))?.socket.destroy();
      offered.set(placeOf(reached.connection.wanted), reached);
      // A free one may have been taken in its stead.
      adopt(reached).setTimeout(FREE_MS, () => reached.socket.destroy());
    },
    close() {
      agent.destroy();
      for (const { socket } of offered.values()) socket.destroy();
    },
  };
}
