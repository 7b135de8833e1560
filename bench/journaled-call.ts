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
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { cpuMsOf, syncFigure, timeSync } from './machine.ts';
import type { LoadOrder, LoadResult, LoadTarget } from './processes/load.ts';
import { startRestate } from './restate.ts';

const RUNS = 32;
const SHAPE = { callers: RUNS, ms: 2_000 };
const ROUNDS = 8;
/** Durable steps of the peer, which take about as long as our part of a round. */
const STEPS = { alone: 500, each: 150 };
const CONFIG = 'toold:\n  test_tools: true\n';

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
    const stepsAtOnce = async (): Promise<number> => {
      const ms = await restate.makeSteps({ workflows: RUNS, steps: STEPS.each });
      return (RUNS * STEPS.each * 1_000) / ms;
    };
    const stepAlone = async (): Promise<number> =>
      (await restate.makeSteps({ workflows: 1, steps: STEPS.alone })) / STEPS.alone;
    await load.drive({ ...order, ms: 4_000 });
    await stepsAtOnce();
    const seen: LoadResult[] = [];
    const aloneMs: number[] = [];
    const peerRates: number[] = [];
    const peerMs: number[] = [];
    const syncs: number[] = [];
    const cpuMs: number[] = [];
    const usedMs = (): number => daemons.pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
    for (let round = 0; round < ROUNDS; round++) {
      const before = usedMs();
      const result = await load.drive(order);
      cpuMs.push((usedMs() - before) / result.requests);
      seen.push(result);
      peerRates.push(await stepsAtOnce());
      aloneMs.push((await load.drive(alone)).p50Ms);
      peerMs.push(await stepAlone());
      syncs.push(timeSync());
    }
    return [
      {
        name: 'journaled calls, 32 runs in flight',
        unit: 'calls/s',
        own: seeRounds(seen.map(({ perSecond }) => perSecond)),
        peer: { name: `${restate.name}, durable steps`, ...seeRounds(peerRates) },
        ratio: seeRounds(seen.map(({ perSecond }, i) => perSecond / peerRates[i]!)),
        bar: { of: 'value', min: 4_000 },
      },
      {
        name: 'one journaled call of 32 in flight, p50',
        unit: 'ms',
        own: seeRounds(seen.map(({ p50Ms }) => p50Ms)),
      },
      {
        name: 'one journaled call alone, p50',
        unit: 'ms',
        own: seeRounds(aloneMs),
        peer: { name: `${restate.name}, mean`, ...seeRounds(peerMs) },
        ratio: seeRounds(aloneMs.map((ms, i) => ms / peerMs[i]!)),
      },
      {
        name: 'processor time of a journaled call, toold and auditd-ai',
        unit: 'ms',
        own: seeRounds(cpuMs),
      },
      syncFigure(seeRounds(syncs)),
    ];
  } finally {
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
