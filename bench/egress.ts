// Measures egressd against a plain TCP relay in Node: throughput of a tunnel, and the latency added
// to one request. Both are reached over a Unix socket and dial the same server. egressd parses the
// ClientHello, counts every byte, and makes the decision durable before it dials.
import { join } from 'node:path';
import { runDirName, socketPathFor } from '../src/platform/daemon.ts';
import { deriveId } from '../src/platform/ids.ts';
import { makeClient, socketLink } from '../src/platform/link.ts';
import { egressdRoutes } from '../src/wire/egressd.ts';
import type { RunId, TaskId } from '../src/wire/primitives.ts';
import { startRuntime, type TestRuntime } from '../test/support/runtime.ts';
import { type BenchProcess, startLoad, startProcess, startUpstream } from './children.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import type { ReadOrder, ReadResult } from './processes/byte-reader.ts';
import { type BytePorts, STREAM_BYTES } from './processes/byte-source.ts';
import type { LoadOrder } from './processes/load.ts';
import { compare } from './rounds.ts';

const NAME = 'bench.test';
const RELAY = 'a plain relay in Node';
const ONE = { callers: 1, warmUpMs: 200, ms: 800 };
const ROUNDS = 8;

const processOf = (name: string): Promise<BenchProcess> =>
  startProcess(new URL(`./processes/${name}.ts`, import.meta.url));

async function openEgress(runtime: TestRuntime, ports: readonly number[]): Promise<string> {
  const socketPath = socketPathFor(runtime.runtimeDir, 'egressd', 'peer-toold');
  const link = socketLink({ socketPath });
  const id = deriveId<RunId>('run', 'bench');
  const task_id = deriveId<TaskId>('task', 'bench');
  const allow = ports.map((port) => ({ host: NAME, port }));
  await makeClient(egressdRoutes, link).putEgress({
    params: { id },
    body: {
      fence: 1,
      agent: 'bench',
      task_id,
      root_task_id: task_id,
      labels: [],
      allow,
      bytes_max: Number.MAX_SAFE_INTEGER,
    },
  });
  link.close();
  const dir = runDirName({ runId: id, fence: 1 });
  return join(runtime.runtimeDir, 'egressd', dir, 'proxy.sock');
}

async function throughput(
  reader: BenchProcess,
  { own, peer, readies }: { own: ReadOrder; peer: ReadOrder; readies: number[] },
): Promise<Figure> {
  const mibPerS = async (order: ReadOrder): Promise<number> => {
    const result = (await reader.ask(order)) as ReadResult;
    const expected = order.sends === true ? 1 : STREAM_BYTES;
    if (result.bytes !== expected) throw new Error(`${result.bytes} bytes came`);
    if (order.connect !== undefined) readies.push(result.readyMs);
    return STREAM_BYTES / 1_048_576 / (result.ms / 1_000);
  };
  const seen = await compare(
    { rounds: 5, turnsPerRound: 4 },
    () => mibPerS(own),
    () => mibPerS(peer),
  );
  return {
    name: `egressd: bytes ${own.sends === true ? 'out of' : 'into'} the box through CONNECT`,
    unit: 'MiB/s',
    own: seen.own,
    peer: { name: RELAY, ...seen.peer },
    ratio: seen.ratio,
    bar: { of: 'ratio', min: 0.9 },
  };
}

/** One caller with a kept connection: the median of each route, less that of a direct request. */
async function added(ways: { direct: number; own: string; peer: string }): Promise<Figure> {
  const load = await startLoad();
  const order = { method: 'POST', body: '{"number":"#{26}"}', headers: {}, path: '/v1/x' };
  const own = {
    ...order,
    targets: [{ socketPath: ways.own }],
    path: `http://${NAME}:${ways.direct}/v1/x`,
    headers: { host: `${NAME}:${ways.direct}` },
  };
  const peer = { ...order, targets: [{ socketPath: ways.peer }] };
  const direct = { ...order, targets: [{ port: ways.direct }] };
  const p50 = async (what: Omit<LoadOrder, keyof typeof ONE>) =>
    (await load.drive({ ...what, ...ONE })).p50Ms;
  const owns: number[] = [];
  const peers: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = await p50(direct);
    const [a, b] = [await p50(own), await p50(peer)];
    const bare = (before + (await p50(direct))) / 2;
    owns.push(a - bare);
    peers.push(b - bare);
  }
  await load.stop();
  return {
    name: 'egressd adds to a request, p50',
    unit: 'ms',
    own: seeRounds(owns),
    peer: { name: RELAY, ...seeRounds(peers) },
    bar: { of: 'value', max: 0.5 },
  };
}

export const egress: Benchmark = {
  name: 'egress',
  about: 'a tunnel and a request through egressd, compared with a plain relay',
  async run() {
    const source = await processOf('byte-source');
    const upstream = await startUpstream();
    const bytes = source.ready as BytePorts;
    const ports = [bytes.source, bytes.sink, upstream.port];
    const config = {
      egressd: { hosts: { [NAME]: '127.0.0.1' }, allow_private: ports.map((p) => `${NAME}:${p}`) },
    };
    const runtime = await startRuntime({ mode: 'split', config: JSON.stringify(config) });
    const [reader, relay] = [await processOf('byte-reader'), await processOf('plain-relay')];
    try {
      const own = await openEgress(runtime, ports);
      const paths = ports.map((port) => join(runtime.runtimeDir, `relay-${port}.sock`));
      for (const [i, port] of ports.entries()) await relay.ask({ socketPath: paths[i], port });
      const readies: number[] = [];
      const pair = (at: 0 | 1) => ({
        own: {
          socketPath: own,
          serverName: NAME,
          connect: `${NAME}:${ports[at]}`,
          sends: at === 1,
        },
        peer: { socketPath: paths[at]!, serverName: NAME, sends: at === 1 },
        readies,
      });
      return [
        await throughput(reader, pair(0)),
        await throughput(reader, pair(1)),
        await added({ direct: upstream.port, own, peer: paths[2]! }),
        {
          name: 'egressd: until a tunnel is open, its decision durable',
          unit: 'ms',
          own: seeRounds(readies),
        },
      ];
    } finally {
      for (const one of [reader, relay, source, upstream]) await one.stop();
      await runtime.remove();
    }
  },
};
