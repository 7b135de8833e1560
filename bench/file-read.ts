// Measures a governed file.read: caller, grant, policy, intent and attempt durable, the path
// resolved by the kernel inside the run's box, outcome and its event. The peer is Node reading the
// same file.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deriveId } from '../src/platform/ids.ts';
import { makeClient, socketLink } from '../src/platform/link.ts';
import type { RunId, TaskId } from '../src/wire/primitives.ts';
import { tooldRoutes } from '../src/wire/toold.ts';
import type { TestRuntime } from '../test/support/runtime.ts';
import { startLoad, startUpstream } from './children.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import type { LoadOrder, LoadTarget } from './processes/load.ts';
import { startBenchRuntime } from './world.ts';

const RUNS = 8;
const ROUNDS = 6;
/** The run that calls alone is another one each round: a run may read 5,000 times. */
const RUNS_IN_ALL = RUNS + ROUNDS;
const TEXT = 'one line of a source file as agents read them\n'.repeat(80);
const AGENTS = {
  coder: `apiVersion: agentd/v1
kind: Agent
metadata: { name: coder }
spec: { tools: { allow: [file.read, file.write_workspace] } }
`,
};

/** Admits the runs, as agentd does before it starts their runners. */
async function admitRuns(runtime: TestRuntime): Promise<LoadTarget[]> {
  const socketPath = join(runtime.runtimeDir, 'toold', 'peer-agentd', 'toold.sock');
  const link = socketLink({ socketPath });
  const toold = makeClient(tooldRoutes, link);
  const targets: LoadTarget[] = [];
  for (let n = 0; n < RUNS_IN_ALL; n++) {
    const id = deriveId<RunId>('run', 'bench-read', n);
    const task_id = deriveId<TaskId>('task', 'bench-read', n);
    const { socket } = await toold.admitRun({
      params: { id },
      body: {
        fence: 1,
        mode: 'live',
        agent: 'coder',
        task_id,
        root_task_id: task_id,
        tools: ['file.read'],
        grant_expires_at: null,
        labels: [],
        workspace: null,
        max_calls: 100_000_000,
      },
    });
    // agentd knows nothing of these runs, so the bench writes the files they read.
    const workspace = join(runtime.stateDir, 'workspaces', task_id);
    mkdirSync(join(workspace, 'src'), { recursive: true, mode: 0o700 });
    writeFileSync(join(workspace, 'src', 'file.ts'), TEXT);
    targets.push({ socketPath: socket, tail: id.slice(-20) });
  }
  link.close();
  return targets;
}

/** The same file by another name each time: the breaker ends a run that repeats one call. */
const BODY = JSON.stringify({
  call_id: 'call_#{6}#{20}',
  tool: 'file.read',
  arguments: { path: 'd#{26}/../src/file.ts' },
});

function bareReadMs(base: string): number {
  const file = join(base, 'bare.txt');
  mkdirSync(base, { recursive: true });
  writeFileSync(file, TEXT);
  const began = performance.now();
  for (let i = 0; i < 1_000; i++) readFileSync(file, 'utf8');
  return (performance.now() - began) / 1_000;
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  const runtime = await startBenchRuntime(upstream.port, { agents: AGENTS });
  const load = await startLoad();
  try {
    const targets = await admitRuns(runtime);
    const order: LoadOrder = {
      targets: targets.slice(0, RUNS),
      method: 'POST',
      path: '/v1/tools/call',
      headers: {},
      body: BODY,
      expect: '"status":"completed"',
      callers: RUNS,
      ms: 2_000,
    };
    const alone = targets
      .slice(RUNS)
      .map((target) => ({ ...order, targets: [target], callers: 1 }));
    await load.drive(order);
    const [p50s, rates, bare]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < ROUNDS; round++) {
      p50s.push((await load.drive(alone[round]!)).p50Ms);
      rates.push((await load.drive(order)).perSecond);
      bare.push(bareReadMs(runtime.stateDir));
    }
    return [
      {
        name: 'governed file.read, one caller, p50',
        unit: 'ms',
        own: seeRounds(p50s),
        peer: { name: 'readFileSync in Node', ...seeRounds(bare) },
        bar: { of: 'value', max: 2.5 },
      },
      {
        name: `governed file.read, ${RUNS} runs, sustained`,
        unit: 'calls/s',
        own: seeRounds(rates),
        bar: { of: 'value', min: 1_000 },
      },
    ];
  } finally {
    await load.stop();
    await runtime.remove();
    await upstream.stop();
  }
}

export const fileRead: Benchmark = {
  name: 'file-read',
  about: 'file.read through the broker, policy, journal, audit and the box',
  run,
};
