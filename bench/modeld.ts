// modeld beside another gateway in front of the same upstream: what it adds to one call, and how
// many calls a second it carries. Ours journals, reserves and audits every call durably first; the
// peer does not.
import { socketPathOf } from '../src/platform/daemon.ts';
import { type Load, startLoad, startUpstream } from './children.ts';
import { type Benchmark, type Figure, type Seen, seeRounds } from './figure.ts';
import { type Peer, startPortkey } from './peers.ts';
import type { LoadOrder, LoadResult, Target } from './processes/load.ts';
import { CHAT, startBenchRuntime } from './world.ts';

const ONE = { callers: 1, warmUpMs: 150, ms: 900, rounds: 8 };
const MANY = { callers: 50, warmUpMs: 300, ms: 2_000, rounds: 6 };
const WARM_UP = { callers: 50, warmUpMs: 0, ms: 3_000 };

type Shape = Pick<LoadOrder, 'callers' | 'warmUpMs' | 'ms'>;
type Way = (shape: Shape) => Promise<LoadResult>;
type Ways = { direct: Way; tcp: Way; unix: Way; peer: Way };

function wayTo(load: Load, to: Pick<LoadOrder, 'path' | 'headers'> & { target: Target }): Way {
  const { target, ...rest } = to;
  const order = { targets: [target], method: 'POST', body: CHAT, ...rest };
  return ({ callers, warmUpMs, ms }) => load.drive({ ...order, callers, warmUpMs, ms });
}

const ratios = (own: readonly number[], peer: readonly number[]): Seen =>
  seeRounds(own.map((value, i) => value / peer[i]!));

/** One caller: the median of each way, less the median of asking the upstream directly. */
async function oneCaller(ways: Ways, peerName: string): Promise<Figure[]> {
  const added = { tcp: [] as number[], unix: [] as number[], peer: [] as number[] };
  const direct: number[] = [];
  for (let round = 0; round < ONE.rounds; round++) {
    const before = (await ways.direct(ONE)).p50Ms;
    const tcp = (await ways.tcp(ONE)).p50Ms;
    const unix = (await ways.unix(ONE)).p50Ms;
    const peer = (await ways.peer(ONE)).p50Ms;
    const bare = (before + (await ways.direct(ONE)).p50Ms) / 2;
    direct.push(bare);
    added.tcp.push(tcp - bare);
    added.unix.push(unix - bare);
    added.peer.push(peer - bare);
  }
  const peer = { name: peerName, ...seeRounds(added.peer) };
  const figure = (way: 'tcp' | 'unix', name: string): Figure => ({
    name,
    unit: 'ms',
    own: seeRounds(added[way]),
    peer,
    ratio: ratios(added[way], added.peer),
    bar: { of: 'value', most: 0.8 },
  });
  return [
    figure('tcp', 'modeld adds to a call, 1 caller, p50 (TCP)'),
    figure('unix', 'modeld adds to a call, 1 caller, p50 (Unix socket)'),
    { name: 'the upstream asked directly, 1 caller, p50', unit: 'ms', own: seeRounds(direct) },
  ];
}

async function manyCallers(ways: Ways, peerName: string): Promise<Figure[]> {
  const seen = { tcp: [] as number[], unix: [] as number[], peer: [] as number[] };
  for (let round = 0; round < MANY.rounds; round++)
    for (const way of ['tcp', 'peer', 'unix'] as const)
      seen[way].push((await ways[way](MANY)).perSecond);
  const peer = { name: peerName, ...seeRounds(seen.peer) };
  const figure = (way: 'tcp' | 'unix', name: string): Figure => ({
    name,
    unit: 'requests/s',
    own: seeRounds(seen[way]),
    peer,
    ratio: ratios(seen[way], seen.peer),
    bar: { of: 'ratio', least: 4 },
  });
  return [
    figure('tcp', 'modeld carries, 50 callers (TCP)'),
    figure('unix', 'modeld carries, 50 callers (Unix socket)'),
  ];
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  const load = await startLoad();
  const runtime = await startBenchRuntime(upstream.port, { port: 0 });
  const peer: Peer = await startPortkey();
  const own = { path: '/openai/v1/chat/completions' };
  const key = { authorization: `Bearer ${runtime.operatorKey}` };
  const socketPath = socketPathOf(runtime.runtimeDir, 'modeld', 'operator');
  const v1 = '/v1/chat/completions';
  const portkeyHeaders = {
    authorization: 'Bearer sk-bench-0123456789',
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${upstream.port}/v1`,
  };
  const bare = { authorization: portkeyHeaders.authorization };
  const ways: Ways = {
    direct: wayTo(load, { target: { port: upstream.port }, path: v1, headers: bare }),
    tcp: wayTo(load, { target: { port: runtime.info.port! }, ...own, headers: key }),
    unix: wayTo(load, { target: { socketPath }, ...own, headers: key }),
    peer: wayTo(load, { target: { port: peer.port }, path: v1, headers: portkeyHeaders }),
  };
  try {
    for (const way of ['tcp', 'unix', 'peer'] as const) await ways[way](WARM_UP);
    return [...(await oneCaller(ways, peer.name)), ...(await manyCallers(ways, peer.name))];
  } finally {
    await peer.stop();
    await runtime.remove();
    await load.stop();
    await upstream.stop();
  }
}

export const modeld: Benchmark = {
  name: 'modeld',
  about: 'a model call through modeld, beside another gateway',
  run,
};
