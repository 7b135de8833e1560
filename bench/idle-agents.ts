// Measures a thousand idle agents: no process, no model call, little memory.
import { startWorld } from '../test/support/in-process.ts';
import { makeInstallation } from '../test/support/installation.ts';
import { eventually } from '../test/support/runtime.ts';
import { startUpstream } from './children.ts';
import { type Benchmark, exactly, type Figure } from './figure.ts';
import { type Memory, memoryOf, treeOf } from './memory.ts';
import { MODEL } from './world.ts';

const AGENTS = 1_000;
const SETTLE_MS = 5_000;
const SECONDS = 600;
const MB = 1_000_000;

const PERSONA = `    You look after one service of many. You read what changed, say what it means
    for those who use the service, and answer questions about it. You change nothing yourself. When
    something is unclear you ask the person who is answerable for it, one question at a time.`;

function manifests(): Record<string, string> {
  const texts: Record<string, string> = {};
  for (let n = 1; n <= AGENTS; n++) {
    const name = `keeper-${String(n).padStart(4, '0')}`;
    texts[name] = `apiVersion: agentd/v1
kind: Agent
metadata:
  name: ${name}
  description: Looks after service ${n}.
spec:
  model: default
  persona: |
${PERSONA}
  tools:
    allow: [git.read, file.read, tests.run]
  limits:
    maxSteps: 40
`;
  }
  return texts;
}

/** Measures the real runtime once it is idle. */
async function atRest(agents: Record<string, string> | undefined): Promise<Memory> {
  const site = makeInstallation(agents === undefined ? {} : { agents });
  try {
    await site.up();
    if (agents !== undefined)
      await eventually('all agents loaded', async () => {
        const { agents: found } = await site.clients().agentd.listAgents({});
        return found.length === AGENTS ? true : undefined;
      });
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    return memoryOf(treeOf(site.pids('supervisor')[0]!));
  } finally {
    await site.remove();
  }
}

type Site = {
  tick(seconds: number): Promise<void>;
  createTask(): Promise<void>;
  stop(): Promise<void>;
};

/** Starts the same daemons in this process, with a clock that only the bench advances. */
async function hostAll(upstreamPort: number): Promise<Site> {
  const base_url = `http://127.0.0.1:${upstreamPort}/v1`;
  const provider = { dialect: 'openai', models: [MODEL], base_url };
  const world = await startWorld({
    agents: manifests(),
    modeld: { providers: { bench: provider } },
    upstream: base_url,
    startMs: Date.parse('2026-01-01T00:00:00Z'),
  });
  return {
    async tick(seconds) {
      for (let second = 0; second < seconds; second++) {
        world.clock.advance(1_000);
        for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      }
    },
    async createTask() {
      await world.agentd.createTask({ body: { goal: 'goal-number-1', agent: 'keeper-0001' } });
    },
    stop: () => world.stop(),
  };
}

/** Counts the model calls in ten minutes; a control checks that one would be counted. */
async function callsWhileIdle(): Promise<number> {
  const upstream = await startUpstream();
  try {
    const site = await hostAll(upstream.port);
    try {
      await site.tick(SECONDS);
      const calls = await upstream.requests();
      await site.createTask();
      await eventually('a model call of a task', async () => {
        return (await upstream.requests()) > calls ? true : undefined;
      });
      return calls;
    } finally {
      await site.stop();
    }
  } finally {
    await upstream.stop();
  }
}

async function run(): Promise<Figure[]> {
  const few = await atRest(undefined);
  const many = await atRest(manifests());
  const calls = await callsWhileIdle();
  const inMb = (bytes: number) => exactly(Math.round(bytes / MB));
  const compared = (pick: (memory: Memory) => number) => ({
    unit: 'MB',
    own: inMb(pick(many)),
    peer: { name: 'starter team', ...inMb(pick(few)) },
    ratio: exactly(pick(many) / pick(few)),
  });
  return [
    {
      name: 'processes of the runtime, 1,000 idle agents',
      unit: '',
      own: exactly(many.processes),
      peer: { name: 'starter team', ...exactly(few.processes) },
      ratio: exactly(many.processes / few.processes),
      bar: { of: 'ratio', max: 1 },
    },
    {
      name: 'model calls in 10 minutes of clock, 1,000 idle agents',
      unit: '',
      own: exactly(calls),
      bar: { of: 'value', max: 0 },
    },
    {
      name: 'memory, 1,000 idle agents (private, and shared once)',
      ...compared(({ onceBytes }) => onceBytes),
      bar: { of: 'value', max: 150 },
    },
    { name: '… as PSS', ...compared(({ pssBytes }) => pssBytes) },
    { name: '… as the sum of RSS', ...compared(({ rssBytes }) => rssBytes) },
  ];
}

export const idleAgents: Benchmark = {
  name: 'idle-agents',
  about: '1,000 declared agents with nothing to do',
  run,
};
