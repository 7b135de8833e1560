// status, doctor, halt and completion against a runtime.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { StatusView } from '../../../wire/agentd.ts';
import { DAEMONS } from '../../../wire/daemons.ts';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, makeStateDir, startFake } from '../testing/fake-runtime.ts';
import { agent, id, model, status, task, usage, wait } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });

const problem = {
  file: '/agents/coder.yaml',
  line: 7,
  message: 'unknown key modle',
  hint: 'Did you mean model?',
};
const policyWith = (broken: typeof problem) => ({
  version: 3,
  hash: '0'.repeat(64),
  made_at: '2026-06-29T18:00:00.000Z',
  policies_dir: '/state/policies',
  site: [],
  agents: 1,
  people: null,
  problems: [broken],
});
const question = wait(1, { kind: 'question', status: 'open', question: 'Go on?', ended_at: null });

test('status is one screen; --json prints all of it', async () => {
  fake.script({
    agentd: {
      status: async () => status({ problems: [problem] }),
      listWaits: async () => ({ waits: [question], cursor: null }),
    },
    modeld: {
      usage: async () => usage(12_300),
      listModels: async () => ({ models: [model('coder-large')], providers: [], aliases: [] }),
    },
  });
  const { stdout, code } = await run('status');
  assert.equal(code, 0);
  assert.match(stdout, /runtime {6}running, embedded, pid \d+, started/);
  assert.match(stdout, new RegExp(`daemons {6}${DAEMONS.length} running\\n`));
  assert.match(stdout, /model {8}the rehearsal responds, not a real model/);
  assert.match(stdout, /agents {7}3 active, 1 paused/);
  assert.match(stdout, /tasks {8}12 completed, 1 working/);
  assert.match(stdout, /questions {4}1 question open; see: agentctl questions/);
  assert.match(stdout, /spent today {2}\$0\.0123, 1,500 tokens/);
  assert.match(
    stdout,
    /problem {2}\/agents\/coder\.yaml:7: unknown key modle\n.*Did you mean model\?/,
  );
  const { status: view } = documentOf<{ status: Record<string, unknown> }>(
    await run('status', '--json'),
  );
  assert.deepEqual(view.daemons, Object.fromEntries(DAEMONS.map((name) => [name, 'ok'])));
  assert.equal(view.questions_open, 1);
  assert.equal(view.rehearsal, true);
  assert.deepEqual(view.spent_today, { cost_microusd: 12_300, tokens: 1_500 });
  assert.equal(view.started_at, '2026-06-29T18:00:00.000Z');
  assert.ok(fake.seen.every(({ principal }) => /^person:./.test(principal)));
});

test('status shows whether tasks wait for an agent or for the machine', async () => {
  const show = async (queue: Partial<StatusView['queue']>) => {
    const full = { for_agents: [], for_machine: 0, runs_live_max: 16, ...queue };
    fake.script({ agentd: { status: async () => status({ queue: full }) } });
    return /^queue +(.*\n(?: .*\n)*)/m
      .exec((await run('status')).stdout)?.[1]
      ?.replace(/\s+/g, ' ');
  };
  const busy = (agent: string, runs: number) => ({ agent, runs, replicas: 4 });
  assert.equal(await show({}), undefined);
  assert.equal(
    await show({ for_agents: [busy('coder', 1)] }),
    '1 task waits for coder (replicas: 4, all busy) ',
  );
  assert.match(
    (await show({ for_agents: ['a', 'b', 'c', 'd', 'e'].map((name) => busy(name, 2)) }))!,
    /^2 tasks wait for a .*; 2 tasks wait for c [^;]*; 4 for 2 other agents $/,
  );
  assert.equal(
    await show({ for_machine: 1_200 }),
    '1,200 tasks wait for the machine (agentd.runs_live_max: 16) ',
  );
});

test('status and doctor warn before the gids of task trees are spent', async () => {
  const use = (used: number) => {
    const ranges = {
      uids: { first: 1, last: 10, used: 0 },
      gids: { first: 300_000, last: 1_299_999, used },
    };
    const identity = async () => ({ identity: 'dynamic' as const, uid: null, ranges });
    fake.script({
      agentd: { status: async () => status() },
      sandboxd: { identity, features: async () => sandboxes },
    });
  };
  use(899_999);
  assert.doesNotMatch((await run('status')).stdout, /gids/);
  assert.match((await run('doctor')).stdout, /^ok +ids +899,999 of 1,000,000 gids/m);
  use(900_000);
  assert.match((await run('status')).stdout, /^ids +900,000 of 1,000,000 gids .*\n?.*widen sand/m);
  const { stdout } = await run('doctor');
  assert.match(stdout, /^warn +ids +900,000 of .*\n.*fix: widen sandboxd\.gid_first and gid_last/m);
});

test('status still works when modeld does not respond', async () => {
  const away = async () => {
    throw fault('unavailable', 'not now');
  };
  fake.script({
    agentd: { status: async () => status({ halted: true, halt_reason: 'fire' }) },
    modeld: { health: away },
  });
  const { stdout, code } = await run('status');
  assert.equal(code, 0);
  assert.match(stdout, /halted \(fire\)/);
  const { length } = DAEMONS;
  const running = `daemons {6}${length - 1} of ${length} running; modeld does not respond\\n`;
  assert.match(stdout, new RegExp(running));
  assert.match(stdout, /spent today {2}unknown/);
  assert.match(stdout, /missing {2}spent today: .*\n {9}\S/);
  const { status: view } = documentOf<{ status: { missing: { what: string }[] } }>(
    await run('status', '--json'),
  );
  assert.deepEqual(view.missing.map(({ what }) => what).sort(), [
    'approvals',
    'ids',
    'model',
    'modeld health',
    'rule problems',
    'spent today',
    'tool problems',
  ]);
});

test('status lists declared tools that are not offered and where to look, or nothing', async () => {
  const file = '/state/tools/deploy.yaml';
  const bad = { file, line: 4, message: 'unknown key risc', hint: 'Did you mean risk?' };
  const script = (problems: (typeof bad)[]) =>
    fake.script({
      agentd: { status: async () => status() },
      toold: { listTools: async () => ({ tools: [], problems }) },
    });
  script([bad]);
  const { stdout, code } = await run('status');
  assert.equal(code, 0);
  assert.match(stdout, /tools {8}1 problem in declared tools; see: agentctl tool list/);
  assert.match(
    stdout,
    /problem {2}\/state\/tools\/deploy\.yaml:4: unknown key risc\n.*mean risk\?/,
  );
  const document = documentOf<{ status: { problems: unknown[] } }>(await run('status', '--json'));
  assert.deepEqual(document.status.problems, [bad]);
  script([]);
  assert.doesNotMatch((await run('status')).stdout, /tool/);
});

test('a daemon that is no longer restarted is reported, with what to do', async () => {
  const file = join(fake.stateDir, 'runtime.json');
  const notRestarted = /toold: not restarted, because the program was changed/;
  fake.script({ agentd: { status: async () => status() } });
  assert.doesNotMatch((await run('status')).stdout, notRestarted);
  writeFileSync(file, JSON.stringify({ ...fake.info, outdated: ['toold'] }));
  try {
    const { stdout } = await run('status');
    assert.match(stdout, notRestarted);
    assert.match(stdout, /agentctl down, then agentctl up/);
    assert.match((await run('doctor')).stdout, /fail {2}runtime {5}toold: not restarted/);
  } finally {
    writeFileSync(file, JSON.stringify(fake.info));
  }
});

test('halt and unhalt', async () => {
  fake.script({
    agentd: {
      halt: async () => ({ halted: true, stopped_runs: 2 }),
      unhalt: async () => ({ halted: false }),
    },
  });
  assert.match((await run('halt', '--reason', 'fire')).stdout, /Halted\. 2 runs stopped/);
  assert.deepEqual(fake.seen.at(-1)?.body, { reason: 'fire' });
  assert.equal((await run('unhalt')).code, 0);
});

test('halt writes the file when no daemon responds', async () => {
  const state = makeStateDir();
  assert.equal((await agentctl(['halt', '--reason', 'fire'], { state })).code, 0);
  assert.equal(readFileSync(join(state, 'HALT'), 'utf8'), 'fire\n');
  assert.equal((await agentctl(['unhalt'], { state })).code, 0);
  assert.equal(existsSync(join(state, 'HALT')), false);
  assert.equal((await agentctl(['unhalt'], { state })).code, 6);
});

const probe = (name: string, detail: string, fix: string | null = null, works = false) => ({
  name,
  works,
  detail,
  fix,
});
const sandboxes = {
  warden: { version: 1, mode: 'user' as const },
  identity: 'single' as const,
  levels: [
    probe('L1', 'no', 'allow it'),
    probe('L2', 'tried', null, true),
    probe('L3', 'not built'),
  ],
  features: [
    probe('memory', 'not delegated', 'delegate'),
    probe('pids', 'not delegated', 'delegate'),
  ],
};

test('[K31] [K96] doctor prints what works, what does not, what is not protected', async () => {
  fake.script({
    agentd: {
      listAgents: async () => ({ agents: [agent('coder')], problems: [problem] }),
      getPolicy: async () => ({ policy: policyWith({ ...problem, file: '10-site.cedar' }) }),
    },
    modeld: {
      listModels: async () => ({ models: [model('coder-large')], providers: [], aliases: [] }),
    },
    sandboxd: { features: async () => sandboxes },
    toold: { listTools: async () => ({ tools: [], problems: [{ ...problem, file: 'x.yaml' }] }) },
  });
  chmodSync(fake.stateDir, 0o700);
  const good = await run('doctor');
  assert.equal(good.code, 0, good.stdout);
  assert.match(good.stdout, /^ok {4}node {8}Node \d+/);
  assert.match(good.stdout, /ok {4}auditd-ai {3}responds/);
  assert.match(good.stdout, /warn {2}models {6}the rehearsal responds/);
  assert.match(good.stdout, /warn {2}manifests {3}\/agents\/coder\.yaml:7/);
  assert.match(good.stdout, /warn {2}rules {7}10-site\.cedar:7 is invalid: /);
  assert.match(good.stdout, /warn {2}tools {7}x\.yaml:7: unknown key modle\n +fix: Did you mean/);
  assert.match(good.stdout, /ok {4}L2 {10}tried; used for runners/);
  assert.match(good.stdout, /no {4}L3 {10}not built/);
  assert.match(
    good.stdout,
    /warn {2}memory {6}not delegated\n *fix: delegate\nwarn {2}pids {8}not delegated\nok/,
  );
  assert.match(good.stdout, /Not protected yet\n {2}- All agents run as the Linux user/);
  chmodSync(fake.stateDir, 0o755);
  const open = await run('doctor', '--json');
  assert.equal(open.code, 1);
  const { doctor } = documentOf<{
    doctor: { checks: { name: string; status: string; fix?: string }[]; not_protected: string[] };
  }>(open);
  const state = doctor.checks.find(({ name }) => name === 'state');
  assert.deepEqual([state?.status, state?.fix], ['fail', `chmod 700 ${fake.stateDir}`]);
  assert.ok(doctor.not_protected.length > 3);
});

test('doctor without a runtime: nothing fails, it prints the next step', async () => {
  const ran = await agentctl(['doctor'], { state: join(makeStateDir(), 'new') });
  assert.equal(ran.code, 0, ran.stdout);
  assert.match(ran.stdout, /warn {2}runtime {5}no runtime is running\n *fix: agentctl up/);
});

test('[K31] [K96] doctor reports a runtime that hangs, and checks everything else', async (t) => {
  const state = makeStateDir();
  const hung = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', state]);
  t.after(() => hung.kill('SIGKILL'));
  const info = { ...fake.info, pid: hung.pid, runtime_dir: join(state, 'no-sockets') };
  writeFileSync(join(state, 'runtime.json'), JSON.stringify(info));
  writeFileSync(join(state, 'operator.key'), 'a key\n', { mode: 0o600 });
  const look = async (): Promise<string> => {
    const { stdout, stderr, code } = await agentctl(['doctor'], { state });
    assert.equal(code, 1, stderr);
    assert.match(stdout, /fail {2}runtime {5}pid \d+ is alive, but agentd does not respond/);
    assert.match(stdout, /\w+ +disk /);
    return stdout;
  };
  assert.match(await look(), /fail {2}sockets {5}/);
  mkdirSync(info.runtime_dir, { mode: 0o700 });
  assert.match(await look(), /fail {2}rights {6}[\s\S]*fail {2}toold {7}/);
});

test("completion knows the runtime's agents, tasks and questions", async () => {
  fake.script({
    agentd: {
      listAgents: async () => ({ agents: [agent('coder'), agent('planner')], problems: [] }),
      listTasks: async () => ({ tasks: [task(1, { goal: 'line\none' })], cursor: null }),
      listWaits: async () => ({ waits: [question], cursor: null }),
    },
  });
  assert.equal((await run('--complete', 'pause', 'co')).stdout, 'coder\tDoes what a coder does\n');
  const tasks = await run('--complete', 'task', 'show', '');
  assert.equal(tasks.stdout, `${id('task', 1)}\tcompleted: line one\n`);
  assert.match((await run('--complete', 'answer', '')).stdout, /^wait_0*1\tGo on\?\n/);
  const away = await agentctl(['--complete', 'pause', ''], { state: makeStateDir() });
  assert.deepEqual([away.code, away.stdout, away.stderr], [0, '', '']);
});
