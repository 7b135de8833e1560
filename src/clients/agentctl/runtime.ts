// Asking the daemons of a runtime over the operator's sockets. Typed by the contracts, checked by
// the daemons; faults come back as they were there.
import type { IncomingMessage } from 'node:http';
import { fillPath, queryOf, withQuery } from '../../platform/request-path.ts';
import type { RuntimeInfo } from '../../platform/state-dir.ts';
import type { DaemonName } from '../../wire/daemons.ts';
import { fault, faultFromBody } from '../../wire/errors.ts';
import type { AnswerOf, RequestOf } from '../../wire/route.ts';
import { type Answer, exchange } from './exchange.ts';
import { type Asked, pathsOf, type Tables } from './routes.ts';
import {
  assertReadable,
  assertRuntimeDir,
  isUp,
  outdatedFault,
  readOperatorKey,
  readPersonKey,
  readRuntimeInfo,
} from './state.ts';

type AskOptions = { deadlineMs?: number; once?: true };

export type Runtime = {
  info: RuntimeInfo;
  stateDir: string;
  ask<D extends DaemonName, K extends Asked<D>>(
    daemon: D,
    name: K,
    request: RequestOf<Tables[D][K]>,
    options?: AskOptions,
  ): Promise<AnswerOf<Tables[D][K]>>;
  /** The answer as it comes, for streams. Ends when `signal` does. */
  open<D extends DaemonName, K extends Asked<D>>(
    daemon: D,
    name: K,
    request: RequestOf<Tables[D][K]>,
    signal: AbortSignal,
  ): Promise<IncomingMessage>;
};

type AnyRequest = {
  params?: Record<string, unknown> | undefined;
  query?: Record<string, unknown> | undefined;
  body?: unknown;
};

const deadlineMsDefault = 30_000;

/** As this person with their own key, else with the operator's under the name of this user. */
export function connectRuntime(stateDir: string, as?: string): Runtime {
  const info = readRuntimeInfo(stateDir);
  if (info === undefined) {
    assertReadable(stateDir);
    throw fault('not_reachable', `no runtime runs on ${stateDir}`, {
      hint: 'Start it: agentctl up (or name another directory with --state).',
    });
  }
  const key = as === undefined ? readOperatorKey(stateDir) : readPersonKey(stateDir, as);
  assertRuntimeDir(info.runtime_dir, stateDir);
  const headers = { authorization: `Bearer ${key}`, 'agentd-person': as ?? personName() };

  const place = (daemon: DaemonName, name: string, { params, query }: AnyRequest) => {
    const [method, path] = pathsOf(daemon)[name]!.split(' ') as [string, string];
    const socketPath = `${info.runtime_dir}/${daemon}/operator/${daemon}.sock`;
    return { socketPath, method, path: withQuery(fillPath(path, params), queryOf(query)) };
  };

  return {
    info,
    stateDir,
    async ask(daemon, name, request, { deadlineMs = deadlineMsDefault, once } = {}) {
      const any = request as AnyRequest;
      const answer = await exchange({
        ...place(daemon, name as string, any),
        headers: {
          ...headers,
          'agentd-deadline-ms': String(deadlineMs),
          ...(once === true ? { 'idempotency-key': crypto.randomUUID() } : {}),
        },
        body: any.body === undefined ? undefined : JSON.stringify(any.body),
        deadlineMs: deadlineMs + 1_000,
      }).catch((error: unknown) => {
        throw translate(error as NodeJS.ErrnoException, daemon, stateDir);
      });
      return readDocument(answer, daemon) as never;
    },
    open(daemon, name, request, signal) {
      const options = { ...place(daemon, name as string, request as AnyRequest), headers, signal };
      // Streams may last for hours and come in chunks: those are left to node:http. Not by
      // `import`, which reads all its exports, and some of them load undici (24 ms).
      const http = process.getBuiltinModule('node:http');
      return new Promise((resolve, reject) => {
        const opened = http.request(options, (response) => {
          if (response.statusCode === 200) resolve(response);
          else refusalOf(response, daemon).then(reject, reject);
        });
        opened.on('error', (error) => reject(translate(error, daemon, stateDir)));
        opened.end();
      });
    },
  };
}

async function refusalOf(response: IncomingMessage, daemon: DaemonName): Promise<unknown> {
  let body = '';
  for await (const chunk of response.setEncoding('utf8')) body += chunk;
  return readDocument({ status: response.statusCode ?? 500, body }, daemon);
}

function readDocument({ status, body }: Answer, daemon: DaemonName): unknown {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw fault('bad_output', `${daemon} did not answer with JSON`, { cause });
  }
  if (status >= 400) throw faultFromBody(value);
  return value;
}

function translate(error: NodeJS.ErrnoException, daemon: DaemonName, stateDir: string): unknown {
  const gone = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTDIR'];
  if (gone.includes(error.code ?? '')) {
    if (readRuntimeInfo(stateDir)?.outdated?.includes(daemon))
      return outdatedFault([daemon], error);
    return fault('not_reachable', `${daemon} of ${stateDir} does not answer`, {
      hint: isUp(stateDir)
        ? 'The runtime starts it again by itself; try again in a moment, or see agentctl doctor.'
        : 'Start the runtime again: agentctl up. Unfinished work goes on then.',
      cause: error,
    });
  }
  if (error.code === 'EACCES') {
    return fault('unauthenticated', `this user may not connect to ${daemon} of ${stateDir}`, {
      hint: `Use it as the user who owns ${stateDir}.`,
      cause: error,
    });
  }
  return error;
}

function personName(): string {
  try {
    return process.getBuiltinModule('node:os').userInfo().username;
  } catch {
    return `uid-${process.getuid?.() ?? 0}`;
  }
}
