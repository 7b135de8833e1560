// Calls the daemons of a runtime over the operator sockets. Typed by the contracts, checked by the
// daemons; their faults are rethrown unchanged.
import type { Readable } from 'node:stream';
import { isSendable, NotHttpError } from '../../platform/http1/head.ts';
import { openStream, readDocument, sendRequest, unixPool } from '../../platform/http1/request.ts';
import { fillPath, withQuery, writeQuery } from '../../platform/request-path.ts';
import type { RuntimeInfo } from '../../platform/state-dir.ts';
import type { DaemonName } from '../../wire/daemons.ts';
import { fault } from '../../wire/errors.ts';
import type { RouteRequest, RouteResponse } from '../../wire/route.ts';
import { type CallableRoute, listPaths, type RouteTables } from './routes.ts';
import {
  assertReadable,
  assertRuntimeDir,
  isUp,
  outdatedFault,
  readOperatorKey,
  readPersonKey,
  readRuntimeInfo,
} from './state.ts';
import { supervisedDownFault } from './supervisor.ts';

/** `idempotent`: under a new key, or under this one. */
type CallOptions = { deadlineMs?: number; idempotent?: true | string };

export type RuntimeClient = {
  info: RuntimeInfo;
  stateDir: string;
  call<D extends DaemonName, K extends CallableRoute<D>>(
    daemon: D,
    name: K,
    request: RouteRequest<RouteTables[D][K]>,
    options?: CallOptions,
  ): Promise<RouteResponse<RouteTables[D][K]>>;
  /** Opens a response stream, which ends when `signal` aborts. */
  open<D extends DaemonName, K extends CallableRoute<D>>(
    daemon: D,
    name: K,
    request: RouteRequest<RouteTables[D][K]>,
    signal: AbortSignal,
  ): Promise<Readable>;
  /** Returns the parts of a request that continues in another protocol. */
  describe<D extends DaemonName, K extends CallableRoute<D>>(
    daemon: D,
    name: K,
    request: RouteRequest<RouteTables[D][K]>,
  ): { socketPath: string; path: string; headers: Record<string, string>; body: string };
};

type AnyRequest = {
  params?: Record<string, unknown> | undefined;
  query?: Record<string, unknown> | undefined;
  body?: unknown;
};

const DEADLINE_MS_DEFAULT = 30_000;

/** Uses the key of the person `as`, else the operator key under this user's name. */
export function connectRuntime(stateDir: string, as?: string): RuntimeClient {
  const info = readRuntimeInfo(stateDir);
  if (info === undefined) {
    assertReadable(stateDir);
    const known = supervisedDownFault(stateDir);
    if (known !== undefined) throw known;
    throw fault('runtime_down', `no runtime is running on ${stateDir}`, {
      hint: 'Start it with agentctl up, or name another directory with --state.',
    });
  }
  const key = as === undefined ? readOperatorKey(stateDir) : readPersonKey(stateDir, as);
  try {
    assertRuntimeDir(info.runtime_dir, stateDir);
  } catch (error) {
    throw supervisedDownFault(stateDir, error) ?? error;
  }
  const person = as ?? readUserName();
  const headers = {
    connection: 'close',
    authorization: `Bearer ${key}`,
    'agentd-person': isSendable(person) ? person : undefined,
  };

  const socketPathFor = (daemon: DaemonName) =>
    `${info.runtime_dir}/${daemon}/operator/${daemon}.sock`;
  const poolFor = (daemon: DaemonName) => unixPool(socketPathFor(daemon));
  const buildTarget = (daemon: DaemonName, name: string, { params, query }: AnyRequest) => {
    const [method, path] = listPaths(daemon)[name]!.split(' ') as [string, string];
    return { method, path: withQuery(fillPath(path, params), writeQuery(query)) };
  };
  const failAs =
    (daemon: DaemonName) =>
    (error: unknown): never => {
      throw translateError(error as NodeJS.ErrnoException, daemon, stateDir);
    };

  return {
    info,
    stateDir,
    async call(daemon, name, request, { deadlineMs = DEADLINE_MS_DEFAULT, idempotent } = {}) {
      const any = request as AnyRequest;
      const response = await sendRequest(poolFor(daemon), {
        ...buildTarget(daemon, name as string, any),
        headers: {
          ...headers,
          'agentd-deadline-ms': deadlineMs,
          'idempotency-key': idempotent === true ? crypto.randomUUID() : idempotent,
        },
        body: any.body === undefined ? undefined : JSON.stringify(any.body),
        timeoutMs: deadlineMs + 1_000,
      }).catch(failAs(daemon));
      return readDocument(response, daemon) as never;
    },
    describe(daemon, name, request) {
      const any = request as AnyRequest;
      const { connection: _, 'agentd-person': sent, ...rest } = headers;
      return {
        socketPath: socketPathFor(daemon),
        path: buildTarget(daemon, name as string, any).path,
        headers: { ...rest, ...(sent === undefined ? {} : { 'agentd-person': sent }) },
        body: JSON.stringify(any.body ?? {}),
      };
    },
    async open(daemon, name, request, signal) {
      const any = request as AnyRequest;
      const body = any.body === undefined ? undefined : JSON.stringify(any.body);
      const options = { ...buildTarget(daemon, name as string, any), headers, body, signal };
      const opened = await openStream(poolFor(daemon), options).catch(failAs(daemon));
      const { status } = opened;
      if (status === 200) return opened.body;
      const text = (await opened.body.setEncoding('utf8').toArray()).join('');
      readDocument({ status, body: text }, daemon);
      throw fault('bad_output', `${daemon} responded ${status} instead of a stream`);
    },
  };
}

function translateError(
  error: NodeJS.ErrnoException,
  daemon: DaemonName,
  stateDir: string,
): unknown {
  const gone = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTDIR'];
  if (gone.includes(error.code ?? '')) {
    if (readRuntimeInfo(stateDir)?.outdated?.includes(daemon))
      return outdatedFault([daemon], error);
    const known = isUp(stateDir) ? undefined : supervisedDownFault(stateDir, error);
    if (known !== undefined) return known;
    return fault('runtime_down', `${daemon} on ${stateDir} does not respond`, {
      hint: isUp(stateDir)
        ? 'The runtime restarts it automatically; retry in a moment, or run agentctl doctor.'
        : 'Start the runtime: agentctl up. Unfinished work resumes.',
      cause: error,
    });
  }
  if (error.code === 'ETIMEDOUT') return fault('deadline', error.message, { cause: error });
  if (error.code?.startsWith('HPE_') === true)
    return fault('unavailable', 'the response was cut off', { hint: 'Retry.', cause: error });
  if (error instanceof NotHttpError) return fault('bad_usage', error.message, { cause: error });
  if (error.code === 'EACCES') {
    return fault('unauthenticated', `this user may not connect to ${daemon} on ${stateDir}`, {
      hint: `Use it as the user who owns ${stateDir}.`,
      cause: error,
    });
  }
  return error;
}

function readUserName(): string {
  try {
    return process.getBuiltinModule('node:os').userInfo().username;
  } catch {
    return `uid-${process.getuid?.() ?? 0}`;
  }
}
