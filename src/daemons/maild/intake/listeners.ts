// Opens the sockets that mail arrives on. The server behind them is loaded with the first
// connection: most runtimes never get one.
import { chmodSync, mkdirSync, rmSync, statSync } from 'node:fs';
import net from 'node:net';
import { dirname, join } from 'node:path';
import type { SMTPServer } from 'smtp-server';
import { makePrivateDir } from '../../../platform/state-dir.ts';
import { fault } from '../../../wire/errors.ts';
import type { MaildConfig } from '../config.ts';
import type { MailProtocol, SmtpServerDeps } from './smtp-server.ts';

export type MailListeners = { close(): Promise<void> };

type Place =
  | { protocol: MailProtocol; path: string; mode: number }
  | { protocol: MailProtocol; port: number };

export async function openMailListeners(options: {
  config: Pick<MaildConfig, 'smtp_port' | 'lmtp_port' | 'lmtp_socket'>;
  runtimeDir: string;
  server: SmtpServerDeps;
}): Promise<MailListeners> {
  const { config, runtimeDir, server } = options;
  const own = join(makePrivateDir(join(runtimeDir, 'maild', 'smtp')), 'smtp.sock');
  const places: Place[] = [
    { protocol: 'smtp', path: own, mode: 0o600 },
    ...(config.smtp_port === undefined
      ? []
      : [{ protocol: 'smtp', port: config.smtp_port } as const]),
    ...(config.lmtp_port === undefined
      ? []
      : [{ protocol: 'lmtp', port: config.lmtp_port } as const]),
    // Who may reach it is for its directory to say; whoever does is outside.
    ...(config.lmtp_socket === undefined
      ? []
      : [{ protocol: 'lmtp', path: config.lmtp_socket, mode: 0o666 } as const]),
  ];
  const servers = new Map<MailProtocol, Promise<SMTPServer>>();
  const serverFor = (protocol: MailProtocol): Promise<SMTPServer> => {
    const found =
      servers.get(protocol) ??
      import('./smtp-server.ts').then(({ makeSmtpServer }) => makeSmtpServer(protocol, server));
    servers.set(protocol, found);
    return found;
  };
  const sockets = new Set<net.Socket>();
  const listeners: net.Server[] = [];
  for (const place of places) {
    const listener = net.createServer({ pauseOnConnect: true }, (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      socket.on('error', () => socket.destroy());
      serverFor(place.protocol).then(
        (smtp) => {
          smtp.server.emit('connection', socket);
          socket.resume();
        },
        () => socket.destroy(),
      );
    });
    await listen(listener, place);
    listeners.push(listener);
  }
  return {
    async close() {
      const closed = listeners.map(
        (listener) => new Promise<void>((resolve) => listener.close(() => resolve())),
      );
      for (const socket of sockets) socket.destroy();
      await Promise.all(closed);
    },
  };
}

async function listen(listener: net.Server, place: Place): Promise<void> {
  const where = 'port' in place ? `127.0.0.1:${place.port}` : place.path;
  if ('path' in place) removeStale(place.path);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  listener.once('error', (cause) =>
    reject(
      fault('bad_config', `mail cannot be taken on ${where}: ${(cause as Error).message}`, {
        hint: 'Correct maild.smtp_port, lmtp_port or lmtp_socket in agentd.yaml.',
        cause,
      }),
    ),
  );
  if ('port' in place) listener.listen(place.port, '127.0.0.1', resolve);
  else listener.listen(place.path, resolve);
  await promise;
  if ('path' in place) chmodSync(place.path, place.mode);
}

/** The state lock is held, so a socket that is there is of a process that has ended. */
function removeStale(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  if (statSync(path, { throwIfNoEntry: false })?.isSocket() === true) rmSync(path);
}
