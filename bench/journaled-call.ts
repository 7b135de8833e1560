// Measures a tool call with everything durable: caller, grant, policy, intent, attempt in the audit
// log, effect, outcome, its event. 32 runs each send the next call as soon as they have the
// response, over their own sockets.
import { deriveId } from '../src/platform/ids.ts';
import { makeClient, socketLink } from '../src/platform/link.ts';
import { publishPolicy } from '../src/policy/testing/publish.ts';
import type { RunId, TaskId } from '../src/wire/primitives.ts';
import { tooldRoutes } from '../src/wire/toold.ts';
import { startLoad } from './children.ts';
import { type BenchDaemons, startDaemons } from './daemons.ts';
import { startDbos } from './dbos.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { cpuMsOf, syncFigure, timeSync } from './machine.ts';
import type { LoadOrder, LoadResult, LoadTarget } from './processes/load.ts';
import { type StepsPeer, startRestate } from './restate.ts';

const RUNS = 32;
const SHAPE = { callers: RUNS, ms: 2_000 };
const ROUNDS = 8;
/** Durable steps of the peers, which take about as long as our part of a round. */
const RESTATE_STEPS: Steps = { alone: 500, each: 150 };
const DBOS_STEPS: Steps = { alone: 200, each: 30 };
const CONFIG = 'toold:\n  test_tools: true\n';

type Steps = { alone: number; each: number };
type PeerRounds = {
  name: string;
  perSecond: number[];
  aloneMs: number[];
  warmUp(): Promise<unknown>;
  round(): Promise<void>;
};

/** Each round makes steps in as many workflows as we have runs, and then in one alone. */
function comparePeer({ name, makeSteps }: StepsPeer, { alone, each }: Steps): PeerRounds {
  const [perSecond, aloneMs]: [number[], number[]] = [[], []];
  return {
    name,
    perSecond,
    aloneMs,
    warmUp: () => makeSteps({ workflows: RUNS, steps: each }),
    async round() {
      const ms = await makeSteps({ workflows: RUNS, steps: each });
      perSecond.push((RUNS * each * 1_000) / ms);
      aloneMs.push((await makeSteps({ workflows: 1, steps: alone })) / alone);
    },
  };
}

/** Admits the runs at toold, as agentd does before it starts their runners. */
async function admitRuns(daemons: BenchDaemons): Promise<LoadTarget[]> {
  const link = socketLink({ socketPath: daemons.socketOf('toold', 'peer-agentd') });
  const toold = makeClient(tooldRoutes, link);
  const targets: LoadTarget[] = [];
  for (let n = 0; n < RUNS; n++) {
    const id = deriveId<RunId>('run', 'bench', n);
    const task_id = deriveId<TaskId>('task', 'bench', n);
    const { socket } = await toold.admitRun({
      params: { id },
      body: {
        fence: 1,
        mode: 'live',
        agent: 'coder',
        task_id,
        root_task_id: task_id,
        tools: ['test.echo'],
        grant_expires_at: null,
        labels: [],
        workspace: null,
        max_calls: 100_000_000,
      },
    });
    targets.push({ socketPath: socket, tail: id.slice(-20) });
  }
  link.close();
  return targets;
}

function beside(
  name: string,
  unit: string,
  own: number[],
  peer: { name: string; values: number[] },
): Figure {
  return {
    name,
    unit,
    own: seeRounds(own),
    peer: { name: peer.name, ...seeRounds(peer.values) },
    ratio: seeRounds(own.map((value, i) => value / peer.values[i]!)),
  };
}

const BODY = JSON.stringify({
  call_id: 'call_#{6}#{20}',
  tool: 'test.echo',
  arguments: { text: `line #{26} of what a tool says` },
  purpose: 'to see how fast a call can be journaled',
});

async function run(): Promise<Figure[]> {
  const daemons = await startDaemons(['auditd-ai', 'toold'], CONFIG, (stateDir) =>
    publishPolicy(stateDir, { agents: { coder: { tools: { allow: ['test.tools'] } } } }),
  );
  const load = await startLoad();
  const restate = await startRestate();
  const dbos = await startDbos();
  try {
    const targets = await admitRuns(daemons);
    const order: LoadOrder = {
      targets,
      method: 'POST',
      path: '/v1/tools/call',
      headers: {},
      body: BODY,
      expect: '"status":"completed"',
      ...SHAPE,
    };
    const alone = { ...order, targets: targets.slice(0, 1), callers: 1, ms: 1_000 };
    const peers = [comparePeer(restate, RESTATE_STEPS)];
    if (dbos === undefined) console.log('\nbench: left out: DBOS, because PostgreSQL is not here');
    else peers.push(comparePeer(dbos, DBOS_STEPS));
    await load.drive({ ...order, ms: 4_000 });
    for (const peer of peers) await peer.warmUp();
    const seen: LoadResult[] = [];
    const aloneMs: number[] = [];
    const syncs: number[] = [];
    const cpuMs: number[] = [];
    const usedMs = (): number => daemons.pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
    for (let round = 0; round < ROUNDS; round++) {
      const before = usedMs();
      const result = await load.drive(order);
      cpuMs.push((usedMs() - before) / result.requests);
      seen.push(result);
      aloneMs.push((await load.drive(alone)).p50Ms);
      for (const peer of peers) await peer.round();
      syncs.push(timeSync());
    }
    const rates = seen.map(({ perSecond }) => perSecond);
    return [
      ...peers.flatMap(({ name, perSecond, aloneMs: peerMs }, at) => [
        {
          ...beside('journaled calls, 32 runs in flight', 'calls/s', rates, {
            name: `${name}, durable steps`,
            values: perSecond,
          }),
          ...(at === 0 ? ({ bar: { of: 'value', min: 4_000 } } as const) : {}),
        },
        beside('one journaled call alone, p50', 'ms', aloneMs, {
          name: `${name}, mean`,
          values: peerMs,
        }),
      ]),
      {
        name: 'one journaled call of 32 in flight, p50',
        unit: 'ms',
        own: seeRounds(seen.map(({ p50Ms }) => p50Ms)),
      },
      {
        name: 'processor time of a journaled call, toold and auditd-ai',
        unit: 'ms',
        own: seeRounds(cpuMs),
      },
      syncFigure(seeRounds(syncs)),
    ];
  } finally {
    await dbos?.stop();
    await restate.stop();
    await load.stop();
    await daemons.remove();
  }
}

export const journaledCall: Benchmark = {
  name: 'journaled-call',
  about: 'tool calls with intent, outcome and audit durable, 32 runs in flight',
  run,
};
