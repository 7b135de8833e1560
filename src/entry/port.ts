// The TCP port of a runtime: opened at startup, or later, when agentctl writes STATE/port-request.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HostOptions } from '../platform/daemon.ts';
import { openPersonKeys } from '../platform/person-keys.ts';
import type { RuntimeInfo } from '../platform/state-dir.ts';
import { openTcpGateway, type TcpGateway } from '../platform/tcp-gateway.ts';
import { Fault, fault } from '../wire/errors.ts';

/** Polled for the same reason as HALT: the databases are in the same directory. */
const POLL_INTERVAL_MS = 250;

export type RuntimePort = {
  /** Resolves to the port, or null without one. Accepts requests from then on. */
  start(port: number | undefined): Promise<number | null>;
  close(): Promise<void>;
};

type PortOptions = Pick<HostOptions, 'stateDir' | 'runtimeDir' | 'operatorKey' | 'log' | 'here'> &
  Pick<Parameters<typeof openTcpGateway>[0], 'dialectErrors'> & {
    hostNames: readonly string[];
    onChange(state: Pick<RuntimeInfo, 'port' | 'port_requested' | 'port_problem'>): void;
  };

export function makePort(options: PortOptions): RuntimePort {
  const file = join(options.stateDir, 'port-request');
  let gateway: TcpGateway | undefined;
  let timer: NodeJS.Timeout | undefined;
  let opening: Promise<void> | undefined;

  const open = async (port: number): Promise<void> => {
    if (gateway?.port === port) return;
    const opened = await openTcpGateway({
      ...options,
      port,
      people: openPersonKeys(join(options.stateDir, 'people')),
    });
    await gateway?.close();
    gateway = opened;
  };

  const openRequested = async (): Promise<void> => {
    const port = Number(readFileSync(file, 'utf8'));
    rmSync(file);
    try {
      if (!Number.isInteger(port) || port < 1 || port > 65_535)
        throw fault('bad_usage', 'the requested port is not a number from 1 to 65535');
      await open(port);
      options.log.info('port opened', { port });
      options.onChange({ port, port_requested: port });
    } catch (error) {
      const { message, hint } =
        error instanceof Fault ? error : fault('internal', String(error), { cause: error });
      options.log.warn('opening the port failed', { port, error });
      options.onChange({
        port: gateway?.port ?? null,
        port_problem: { port, message, hint },
      });
    }
  };

  return {
    async start(port) {
      rmSync(file, { force: true });
      if (port !== undefined) await open(port);
      timer = setInterval(() => {
        if (opening !== undefined || !existsSync(file)) return;
        opening = openRequested()
          .catch((error: unknown) => options.log.error('reading a port request failed', { error }))
          .finally(() => {
            opening = undefined;
          });
      }, POLL_INTERVAL_MS);
      timer.unref();
      return gateway?.port ?? null;
    },
    async close() {
      clearInterval(timer);
      await opening;
      await gateway?.close();
    },
  };
}
