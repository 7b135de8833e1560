// Measures modeld against another gateway in front of the same upstream: the latency it adds to one
// call, and its throughput. Ours journals, reserves and audits every call durably first; the peer
// does not.
import { socketPathFor } from '../src/platform/daemon.ts';
import { profiling } from './children.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { driveHttp, type HttpLoad, type HttpLoadResult, startHttpServer } from './http-load.ts';
import { cpuMsOf, syncFigure, timeSync } from './machine.ts';
import { treeOf } from './memory.ts';
import { type BenchPeer, startPortkey } from './peers.ts';
import { plainChatResponse } from './processes/chat-response.ts';
import { CHAT, startBenchRuntime } from './world.ts';

const ONE = { callers: 1, warmUpMs: 150, ms: 900, rounds: 8 };
/** Many short rounds: the machine's speed varies from second to second, for the peer and for us. */
const MANY = { callers: 50, warmUpMs: 200, ms: 1_000, rounds: 16 };
/** Until the JIT has warmed up: after only three seconds a call still costs 50 % more. */
const WARM_UP = { callers: 50, warmUpMs: 0, ms: 12_000 };

type Shape = { callers: number; warmUpMs: number; ms: number };
type Seconds = HttpLoadResult & { cpuMsPerRequest: number };
type Way = (shape: Shape) => Promise<Seconds>;
type Ways = { direct: Way; tcp: Way; unix: Way; peer: Way };
type Gate = 'tcp' | 'unix' | 'peer';
const GATES: readonly Gate[] = ['tcp', 'peer', 'unix'];

/** Alternating order: after the peer's turn the disk is idle, which must favor both alike. */
const gatesOf = (round: number): readonly Gate[] => (round % 2 === 0 ? GATES : GATES.toReversed());

type To = Pick<HttpLoad, 'address' | 'path' | 'headers'> & { pids: readonly number[] };

/** Drives one target, and measures the CPU time of its processes. */
function wayTo({ pids, ...to }: To): Way {
  const order = { method: 'POST', body: CHAT, ...to };
  const cpuMs = (): number => pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
  return async ({ callers, warmUpMs, ms }) => {
    if (warmUpMs > 0) await driveHttp({ ...order, callers, warmUpMs: 0, ms: warmUpMs });
    const before = cpuMs();
    const result = await driveHttp({ ...order, callers, warmUpMs: 0, ms });
    return { ...result, cpuMsPerRequest: (cpuMs() - before) / result.requests };
  };
}

type Rows = { [gate in Gate]: number[] };
const rows = (): Rows => ({ tcp: [], unix: [], peer: [] });

function figureOf(
  seen: Rows,
  gate: 'tcp' | 'unix',
  more: Pick<Figure, 'name' | 'unit' | 'bar'> & { peerName: string },
): Figure {
  const { peerName, ...latency } = more;
  return {
    ...latency,
    own: seeRounds(seen[gate]),
    peer: { name: peerName, ...seeRounds(seen.peer) },
    ratio: seeRounds(seen[gate].map((value, i) => value / seen.peer[i]!)),
  };
}

/** One caller: the median of each route, less the median of direct requests to the upstream. */
async function oneCaller(ways: Ways, peerName: string): Promise<Figure[]> {
  const added = rows();
  const direct: number[] = [];
  const syncs: number[] = [];
  for (let round = 0; round < ONE.rounds; round++) {
    const before = (await ways.direct(ONE)).p50Ms;
    const p50Ms = { tcp: 0, unix: 0, peer: 0 };
    for (const gate of gatesOf(round)) p50Ms[gate] = (await ways[gate](ONE)).p50Ms;
    const bare = (before + (await ways.direct(ONE)).p50Ms) / 2;
    direct.push(bare);
    for (const gate of GATES) added[gate].push(p50Ms[gate] - bare);
    syncs.push(timeSync());
  }
  const latency = { unit: 'ms', bar: { of: 'value', max: 1 }, peerName } as const;
  const name = 'modeld adds to a call, 1 caller, p50';
  return [
    figureOf(added, 'tcp', { ...latency, name: `${name} (TCP)` }),
    figureOf(added, 'unix', { ...latency, name: `${name} (Unix socket)` }),
    { name: 'the upstream asked directly, 1 caller, p50', unit: 'ms', own: seeRounds(direct) },
    syncFigure(seeRounds(syncs)),
  ];
}

async function manyCallers(ways: Ways, peerName: string): Promise<Figure[]> {
  const rates = rows();
  const cpuMs = rows();
  for (let round = 0; round < MANY.rounds; round++)
    for (const gate of gatesOf(round)) {
      const { perSecond, cpuMsPerRequest } = await ways[gate](MANY);
      rates[gate].push(perSecond);
      cpuMs[gate].push(cpuMsPerRequest);
    }
  const rate = { unit: 'requests/s', bar: { of: 'ratio', min: 3 }, peerName } as const;
  const cpu = { unit: 'ms', peerName } as const;
  const [carried, used] = ['modeld carries, 50 callers', 'processor time of a call, 50 callers'];
  return [
    figureOf(rates, 'tcp', { ...rate, name: `${carried} (TCP)` }),
    figureOf(rates, 'unix', { ...rate, name: `${carried} (Unix socket)` }),
    figureOf(cpuMs, 'tcp', { ...cpu, name: `${used} (TCP)` }),
    figureOf(cpuMs, 'unix', { ...cpu, name: `${used} (Unix socket)` }),
  ];
}

async function run(): Promise<Figure[]> {
  const upstream = await startHttpServer(plainChatResponse);
  const runtime = await startBenchRuntime(upstream.port, { port: 0, nodeArgs: profiling() });
  const peer: BenchPeer = await startPortkey();
  const own = {
    path: '/openai/v1/chat/completions',
    headers: { authorization: `Bearer ${runtime.operatorKey}` },
    pids: treeOf(runtime.process.pid!),
  };
  const socketPath = socketPathFor(runtime.runtimeDir, 'modeld', 'operator');
  const v1 = '/v1/chat/completions';
  const portkeyHeaders = {
    authorization: 'Bearer sk-bench-0123456789',
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${upstream.port}/v1`,
  };
  const bare = { authorization: portkeyHeaders.authorization };
  const ways: Ways = {
    direct: wayTo({ address: upstream.port, path: v1, headers: bare, pids: [] }),
    tcp: wayTo({ address: runtime.info.port!, ...own }),
    unix: wayTo({ address: socketPath, ...own }),
    peer: wayTo({ address: peer.port, path: v1, headers: portkeyHeaders, pids: [peer.pid] }),
  };
  try {
    for (const gate of GATES) await ways[gate](WARM_UP);
    return [...(await oneCaller(ways, peer.name)), ...(await manyCallers(ways, peer.name))];
  } finally {
    await peer.stop();
    await runtime.remove();
    await upstream.stop();
  }
}

export const modeld: Benchmark = {
  name: 'modeld',
  about: 'a model call through modeld, compared with another gateway',
  run,
};
