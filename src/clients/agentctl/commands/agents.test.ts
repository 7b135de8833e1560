// Agents, messages and questions, through the whole program.
import assert from 'node:assert/strict';
import { userInfo } from 'node:os';
import { after, before, test } from 'node:test';
import { readYaml } from '../../../platform/yaml-file.ts';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import {
  agent,
  at,
  event,
  id,
  message,
  model,
  task,
  tool,
  usage,
  wait,
} from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const free = { first: 1, last: 10, used: 0 };
const ranges = { uids: free, gids: free };
const last = () => fake.seen.at(-1)!;
const real = (name: string) => model(name, { rehearsal: false });
const anySchema = { safeParse: (data: unknown) => ({ success: true, data }) } as never;

test('list shows what each agent spent today', async () => {
  fake.script({
    agentd: {
      listAgents: async () => ({ agents: [agent('planner'), agent('coder')], problems: [] }),
    },
    modeld: { usage: async () => usage(12_300) },
    sandboxd: { identity: async () => ({ identity: 'dynamic', uid: null, ranges }) },
  });
  const { stdout } = await run('list');
  const [head, planner, coder] = stdout.split('\n');
  assert.match(head!, /^NAME +USER +STATUS +MODEL +TASKS +SPENT TODAY +FOR$/);
  assert.match(
    planner!,
    /^planner +agent-planner +active +planner-large +1 working, 3 ended +\$0\.0123/,
  );
  assert.match(coder!, /\$0\.0000/);
  const { agents } = documentOf<{ agents: { spent_today_microusd: number }[] }>(
    await run('list', '--json'),
  );
  assert.deepEqual(
    agents.map((row) => row.spent_today_microusd),
    [12_300, 0],
  );
});

test('list and show print the real box users, and what could not be read', async () => {
  const agents = [agent('planner')];
  const script = (identity: 'users' | 'single' | 'dynamic', uid: number | null) =>
    fake.script({
      agentd: {
        listAgents: async () => ({ agents, problems: [] }),
        getAgent: async () => ({ agent: agents[0]!, manifest: {} }),
      },
      sandboxd: { identity: async () => ({ identity, uid, ranges }) },
    });
  script('dynamic', null);
  const own = await run('agent', 'show', 'planner');
  assert.match(own.stdout, /agent-planner, its own uid without an account/);
  agents[0] = agent('planner', { linux_user: 'deploy' });
  script('dynamic', null);
  assert.match((await run('list')).stdout, /planner +agent-planner +active/);
  const asking = await run('agent', 'show', 'planner');
  assert.match(asking.stdout, /without an account; deploy needs sandboxd\.identity: users/);
  script('users', null);
  assert.match((await run('list')).stdout, /planner +deploy +active/);
  script('single', process.getuid!());
  assert.match((await run('list')).stdout, new RegExp(`planner +${userInfo().username} +active`));
  assert.match((await run('agent', 'show', 'planner')).stdout, /shared by all agents/);
  script('single', 4_242);
  assert.match((await run('list')).stdout, /planner +uid 4242 +active/);
  fake.script({ agentd: { listAgents: async () => ({ agents, problems: [] }) } });
  const blind = await run('list');
  assert.match(blind.stdout, /planner +\? +active .* \? /);
  assert.match(blind.stdout, /missing {2}users: .*\n/);
  assert.match(blind.stdout, /missing {2}spent today: .*\n/);
});

test('pause, resume, stop, remove and run send exactly that request', async () => {
  const answer = async () => ({ agent: agent('coder') });
  fake.script({
    agentd: {
      pauseAgent: answer,
      resumeAgent: answer,
      stopAgent: answer,
      removeAgent: answer,
      assignTask: async () => ({ task: task(1, { assigned_to: 'coder', status: 'ready' }) }),
    },
  });
  for (const [args, route] of [
    [['pause', 'coder'], 'pauseAgent'],
    [['resume', 'coder'], 'resumeAgent'],
    [['stop', 'coder'], 'stopAgent'],
    [['agent', 'remove', 'coder'], 'removeAgent'],
  ] as const) {
    assert.equal((await run(...args)).code, 0);
    assert.deepEqual([last().route, last().params], [route, { name: 'coder' }]);
  }
  for (const args of [
    ['run', 'coder', '--task', id('task', 1)],
    ['task', 'assign', id('task', 1), 'coder'],
  ] as const) {
    const seen = fake.seen.length;
    await run(...args);
    assert.equal(fake.seen.length, seen + 1);
    assert.deepEqual(last().params, { id: id('task', 1) });
    assert.deepEqual(last().body, { agent: 'coder' });
  }
});

test('agent show prints the manifest as YAML', async () => {
  const manifest = { apiVersion: 'agentd/v1', metadata: { name: 'coder' } };
  fake.script({ agentd: { getAgent: async () => ({ agent: agent('coder'), manifest }) } });
  const { stdout } = await run('agent', 'show', 'coder');
  assert.match(stdout, /budget {8}\$5\.0000 a day/);
  assert.match(stdout, /\nmetadata:\n {2}name: coder\n/);
});

test('agent show names the words that stand for no tool', async () => {
  const capabilities = ['git.read', 'metrics.read'];
  const spec = { tools: { allow: capabilities }, memory: { read: ['project:app'] } };
  fake.script({
    agentd: {
      getAgent: async () => ({
        agent: { ...agent('coder'), capabilities, tools: ['git.log', 'metrics.read'] },
        manifest: { spec },
      }),
    },
    toold: {
      listTools: async () => ({ tools: [tool('git.log', { capabilities: ['git.read'] })] }),
    },
  });
  const { stdout } = await run('agent', 'show', 'coder');
  assert.match(stdout, /git\.read\n +metrics\.read: no tool yet\n +memory\.read: no tool/);
  assert.match(stdout, /tools +git\.log\n/);
  const { agent: shown } = documentOf<{ agent: { without_tool: string[] } }>(
    await run('agent', 'show', 'coder', '--json'),
  );
  assert.deepEqual(shown.without_tool, ['metrics.read', 'memory.read']);
});

test('agent create builds a manifest from options, or reads a file', async () => {
  fake.script({
    agentd: { putAgent: async () => ({ agent: agent('tester') }) },
    modeld: { listModels: async () => ({ models: [model('any')], providers: [], aliases: [] }) },
  });
  await run(
    'agent',
    'create',
    'tester',
    '--model',
    'small',
    '--allow',
    'git.read',
    '--instructions',
    'a: b',
  );
  const body = last().body as { manifest_yaml: string; create_only: boolean };
  assert.equal(body.create_only, true);
  const read = readYaml(body.manifest_yaml, 'm.yaml', anySchema) as {
    ok: boolean;
    value?: unknown;
  };
  assert.deepEqual(read.value, {
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: { name: 'tester' },
    spec: { model: 'small', persona: 'a: b', tools: { allow: ['git.read'] } },
  });
  const ran = await agentctl(['agent', 'create', 'tester', '-f', '-'], {
    state: fake.stateDir,
    stdin: 'kind: Agent\n',
  });
  assert.equal(ran.code, 0);
  assert.equal((last().body as { manifest_yaml: string }).manifest_yaml, 'kind: Agent\n');
  assert.equal((await run('agent', 'create', 'x', '-f', '-', '--model', 'm')).code, 2);
  assert.equal((await run('agent', 'create', 'x', '-f', '/no/such/file')).code, 2);
});

test('an invalid agent name gets a plain error', async () => {
  const wrong = await run('agent', 'create', 'Foo!');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /invalid agent name 'Foo!'.*\n.*lowercase letters/);
});

test('list names the invalid manifests when no agent is left', async () => {
  const broken = { file: '/a/b.yaml', line: 1, message: 'spec is missing', hint: 'Add it.' };
  fake.script({ agentd: { listAgents: async () => ({ agents: [], problems: [broken] }) } });
  const { stdout } = await run('list');
  assert.match(stdout, /problem {2}\/a\/b\.yaml:1: spec is missing\n/);
  assert.match(stdout, /No agent could be loaded\. Fix the problems above/);
});

test('agent update changes only what is named', async () => {
  const manifest = {
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: { name: 'coder', description: 'codes' },
    spec: { model: 'old', replicas: 2, tools: { allow: ['git.read'] } },
  };
  fake.script({
    agentd: {
      getAgent: async () => ({ agent: agent('coder'), manifest }),
      putAgent: async () => ({ agent: agent('coder') }),
    },
    modeld: { listModels: async () => ({ models: [real('new')], providers: [], aliases: [] }) },
  });
  assert.equal((await run('agent', 'update', 'coder', '--model', 'new')).code, 0);
  const body = last().body as { manifest_yaml: string; create_only?: boolean };
  assert.equal(body.create_only, undefined);
  const read = readYaml(body.manifest_yaml, 'm.yaml', anySchema) as { value?: unknown };
  assert.deepEqual(read.value, { ...manifest, spec: { ...manifest.spec, model: 'new' } });
  assert.equal((await run('agent', 'update', 'coder')).code, 2);
  const puts = () => fake.seen.filter(({ route }) => route === 'putAgent').length;
  const before = puts();
  const unknown = await run('agent', 'update', 'coder', '--model', 'nwe');
  assert.equal(unknown.code, 5);
  assert.match(unknown.stderr, /model nwe not found; did you mean new\?/);
  assert.equal(puts(), before, 'nothing was changed');
});

test('send finds the agent by name or user; --task adds the message to that thread', async () => {
  fake.script({
    agentd: {
      listAgents: async () => ({ agents: [agent('coder')], problems: [] }),
      getTask: async () => ({ task: task(1) }),
      sendMessage: async () => ({ message: message(1) }),
    },
    maild: {
      async sendMail() {
        throw fault('not_found', 'there is no agent or person called nobody');
      },
    },
  });
  for (const user of ['coder', 'agent-coder', 'agent:coder']) {
    assert.equal((await run('send', user, 'hello')).code, 0);
    const parts = [{ kind: 'text', text: 'hello' }];
    assert.deepEqual(last().body, { type: 'TaskRequest', to: 'agent:coder', parts });
    assert.ok(last().idempotencyKey !== undefined);
  }
  const late = await run('send', 'coder', 'hello', '--task', id('task', 1));
  assert.match(
    late.stdout,
    /^Sent .* is completed, so agent:coder reads it at its next task in this thread\.\n/,
  );
  assert.match(late.stdout, new RegExp(`task create "…" --context ${id('ctx', 1)}\n$`));
  const body = last().body as Record<string, unknown>;
  assert.deepEqual([body.type, body.context_id], ['TaskProgress', id('ctx', 1)]);
  const wrong = await run('send', 'nobody', 'hello');
  assert.equal(wrong.code, 5);
  assert.match(wrong.stderr, /there is no agent or person called nobody/);
});

test('questions are listed and answered', async () => {
  const open = wait(1, {
    kind: 'question',
    status: 'open',
    question: 'Which\nbranch?',
    choices: ['main', 'dev'],
    ended_at: null,
    opened_at: at(0),
  });
  fake.script({
    agentd: {
      listWaits: async () => ({ waits: [open], cursor: null }),
      answerWait: async ({ params }) => {
        if (params.id !== open.id) throw fault('not_found', `wait ${params.id} not found`);
        return { wait: { ...open, status: 'ended' as const, outcome: 'answered' as const } };
      },
    },
  });
  const { stdout } = await run('questions');
  assert.match(
    stdout,
    /^wait_0*1 {2}task_0*1, asked .* ago\n {2}Which\n {2}branch\?\n {2}· main\n/,
  );
  assert.deepEqual(last().query, { status: 'open', kind: 'question', limit: 1000 });
  const answered = await run('answer', open.id, 'dev');
  assert.match(answered.stdout, /Answered; task_0*1 resumes/);
  const answer = fake.seen.findLast(({ route }) => route === 'answerWait');
  assert.deepEqual(answer?.body, { answer: 'dev' });
  assert.equal((await run('answer', id('wait', 9), 'x')).code, 5);
});

test('[K23] logs prints what the agent did; an unknown name is an error', async () => {
  fake.script({
    agentd: {
      getAgent: async ({ params }) => {
        if (params.name !== 'coder') throw fault('not_found', 'agent not found');
        return { agent: agent('coder'), manifest: {} };
      },
    },
    'auditd-ai': {
      agent: async ({ query }) =>
        query.cursor === undefined
          ? { events: [event(5), event(6, { allowed: false, policy: 'rule 7' })], cursor: 'more' }
          : { events: [event(7, { status: 'done' })], cursor: null },
    },
  });
  const { stdout } = await run('logs', 'coder', '-n', '2');
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.length, 2);
  assert.match(lines[0]!, / {2}tool\.call\.attempted +calls .* allowed by rule 7$/);
  const { events } = documentOf<{ events: { seq: number }[] }>(
    await run('logs', 'coder', '--json'),
  );
  assert.deepEqual(
    events.map(({ seq }) => seq),
    [5, 6, 7],
  );
  assert.equal((await run('logs', 'nobody')).code, 5);
});
