// An approved call does exactly what the person approved, with real tools on real files, while
// another agent changes the files at every failpoint in between.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openTestBox, type TestBox } from '../../../../test/support/test-box.ts';
import { deriveId } from '../../../platform/ids.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import {
  decideAsPerson,
  hostToold,
  makeWorld,
  publishPolicy,
  type TooldTestHost,
  type TooldTestRun,
  type TooldWorld,
} from '../testing/host.ts';
import { fakeSandboxd } from '../testing/sandboxd.ts';

const DECLARED = (name: string, program: string, more: string) => `name: ${name}
description: For tests.
argv: [${program}]
idempotent: false
${more}
`;
const FREE = 'risk: low\nreversibility: reversible';
const APPROVAL = 'risk: high\nreversibility: irreversible\napproval: required';
const PREVIEWED = `${APPROVAL}\npreview: [cat, plan.txt]`;

let world: TooldWorld;
let box: TestBox;
let host: TooldTestHost;
let run: TooldTestRun;
let rights: object;
/** The other agent's action at one of toold's failpoints. */
let meanwhile: { failpoint: string; work: () => void };
const at = (name: string) => join(box.workspace, name);
const git = (...args: string[]) =>
  execFileSync('git', ['-C', box.workspace, '-c', 'user.name=p', '-c', 'user.email=p@x', ...args], {
    encoding: 'utf8',
  }).trim();

const APPROVED = ['git.commit', 'file.write', 'file.delete', 'delete.recursive'];
const TOOLS = [...APPROVED, 'file.edit', 'site.deploy', 'site.blind', 'site.slow'];
beforeEach(async () => {
  [world, box] = [makeWorld(), await openTestBox()];
  meanwhile = { failpoint: 'never', work: () => {} };
  const required = APPROVED;
  const filesystem = { write: [box.workspace] };
  const allow = [...TOOLS, 'file.write_workspace', 'git.write_branch'];
  const coder = { tools: { allow }, approvals: { required }, filesystem };
  rights = coder;
  publishPolicy(world.dir, { coder });
  mkdirSync(join(world.dir, 'state/tools'));
  const declare = (name: string, more: string, script: string) => {
    const program = at(`${name}.sh`);
    writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const file = join(world.dir, `state/tools/${name}.yaml`);
    writeFileSync(file, DECLARED(`site.${name}`, program, more), { mode: 0o600 });
  };
  const wait = 'while [ -e hold ]; do sleep 0.02; done';
  declare('deploy', PREVIEWED, `touch begun; ${wait}; cat plan.txt > deployed.txt`);
  declare('blind', APPROVAL, `touch begun; ${wait}; cat plan.txt > deployed.txt`);
  declare('slow', FREE, `touch begun; ${wait}; echo evil > plan.txt`);
  host = await hostToold(world, {
    sandboxd: fakeSandboxd(box.box),
    failpoint: (name) => name === meanwhile.failpoint && meanwhile.work(),
  });
  run = await host.admit('one', { tools: TOOLS });
});
afterEach(async () => {
  await host.stop();
  world.remove();
  await box.close();
});

type Row = {
  tool: string;
  args: () => object;
  prepare: () => void;
  change: () => void;
  /** True when the other agent's work was used, changed or lost. */
  isHarmed: () => boolean;
  /** True when the approved effect has happened. */
  isDone: () => boolean;
};
const ROWS: Row[] = [
  {
    tool: 'git.commit',
    args: () => ({ repo: box.workspace, message: 'work', all: true }),
    prepare() {
      git('init', '--quiet', '-b', 'main');
      git('commit', '--quiet', '--allow-empty', '-m', 'first');
      writeFileSync(at('a'), 'mine\n');
    },
    change: () => writeFileSync(at('b'), 'theirs\n'),
    isHarmed: () => git('show', '--stat', 'main').includes(' b '),
    isDone: () => git('log', '-1', '--format=%s') === 'work',
  },
  {
    tool: 'file.write',
    args: () => ({ path: at('a'), text: 'mine' }),
    prepare: () => writeFileSync(at('a'), 'before'),
    change: () => writeFileSync(at('a'), 'theirs'),
    isHarmed: () => readFileSync(at('a'), 'utf8') !== 'theirs',
    isDone: () => readFileSync(at('a'), 'utf8') === 'mine',
  },
  {
    tool: 'file.delete',
    args: () => ({ path: at('a') }),
    prepare: () => writeFileSync(at('a'), 'before'),
    change: () => writeFileSync(at('a'), 'theirs'),
    isHarmed: () => !existsSync(at('a')),
    isDone: () => !existsSync(at('a')),
  },
  {
    tool: 'delete.recursive',
    args: () => ({ path: at('d') }),
    prepare: () => mkdirSync(at('d')),
    change: () => writeFileSync(at('d/a'), 'theirs'),
    isHarmed: () => !existsSync(at('d/a')),
    isDone: () => !existsSync(at('d')),
  },
  {
    tool: 'delete.recursive',
    args: () => ({ path: at('d') }),
    prepare() {
      mkdirSync(at('d'));
      writeFileSync(at('d/a'), 'before');
      utimesSync(at('d/a'), 1, 1);
    },
    change() {
      writeFileSync(at('d/a'), 'theirs');
      utimesSync(at('d/a'), 1, 1);
    },
    isHarmed: () => !existsSync(at('d/a')),
    isDone: () => !existsSync(at('d')),
  },
  {
    tool: 'site.deploy',
    args: () => ({}),
    prepare: () => writeFileSync(at('plan.txt'), 'good'),
    change: () => writeFileSync(at('plan.txt'), 'evil'),
    isHarmed: () => existsSync(at('deployed.txt')),
    isDone: () => existsSync(at('deployed.txt')),
  },
];

for (const row of ROWS)
  describe(`${row.tool} with approval`, () => {
    const ask = () => run.ask(1, row.tool, row.args());
    const askAndApprove = async () => {
      row.prepare();
      const first = await ask();
      assert.equal(first.status, 'waiting', JSON.stringify(first));
      decideAsPerson(world, run.callId(1), { decision: 'approved' });
    };

    it('happens when no other agent changes anything', async () => {
      await askAndApprove();
      const done = await ask();
      assert.equal(done.status, 'completed', JSON.stringify(done));
      assert.ok(row.isDone());
    });

    it('is denied with a hint to call again when another agent changed its basis before the decision', async () => {
      await askAndApprove();
      row.change();
      const { status, error } = await ask();
      assert.deepEqual([status, error?.code], ['denied', 'changed']);
      assert.match(error?.hint ?? '', /call again/);
      assert.equal(row.isHarmed(), false);
    });

    it('uses nothing that another agent changed between the decision and the effect', async () => {
      await askAndApprove();
      meanwhile = { failpoint: 'toold.after-attempt-durable', work: row.change };
      const done = await ask();
      assert.equal(row.isHarmed(), false, JSON.stringify(done));
      // A commit consists of what was shown; a tool that cannot act on that state fails.
      if (row.tool === 'git.commit') assert.ok(row.isDone());
      else assert.deepEqual([done.status, done.error?.code], ['failed', 'conflict']);
    });
  });

describe('edited arguments', () => {
  it('act on the state that the person saw, or not at all', async () => {
    writeFileSync(at('a'), 'before');
    const ask = (n: number) => run.ask(n, 'file.write', { path: at('a'), text: 'mine' });
    const edited = { path: at('a'), text: 'better' };
    for (const n of [1, 2]) {
      await ask(n);
      decideAsPerson(world, run.callId(n), { decision: 'approved', edited });
    }
    meanwhile = {
      failpoint: 'toold.after-attempt-durable',
      work: () => writeFileSync(at('a'), 'theirs'),
    };
    assert.equal((await ask(1)).error?.code, 'conflict');
    assert.equal(readFileSync(at('a'), 'utf8'), 'theirs');
    writeFileSync(at('a'), 'before');
    meanwhile.failpoint = 'never';
    assert.equal((await ask(2)).status, 'completed', 'control');
    assert.equal(readFileSync(at('a'), 'utf8'), 'better');
  });
});

describe('while an approved call runs whose preview read files', () => {
  let other: TooldTestRun;
  beforeEach(async () => {
    writeFileSync(at('plan.txt'), 'good');
    writeFileSync(at('hold'), '');
    const root_task_id = deriveId<TaskId>('task', run.id);
    other = await host.admit('two', { tools: TOOLS, root_task_id });
  });
  afterEach(() => rmSync(at('hold'), { force: true }));

  const approve = async (tool: string) => {
    assert.equal((await run.ask(1, tool, {})).status, 'waiting');
    decideAsPerson(world, run.callId(1), { decision: 'approved' });
    return run.ask(1, tool, {});
  };
  const waitForStart = async () => {
    while (!existsSync(at('begun'))) await sleep(5);
  };
  /** Waits until the call is attempted. */
  const attempted = async () => {
    const id = `${run.callId(1)}.attempted.1`;
    while (!world.audit.events.some((event) => event.id === id)) await sleep(5);
  };
  const edit = () =>
    other.ask(1, 'file.edit', {
      path: at('plan.txt'),
      edits: [{ old_text: 'good', new_text: 'evil' }],
    });
  const deployed = () => readFileSync(at('deployed.txt'), 'utf8');

  it('a call of another agent waits until it has ended', async () => {
    const deploying = approve('site.deploy');
    await waitForStart();
    const editing = edit();
    // Far longer than it takes without a lock, as the control below shows.
    assert.equal(await Promise.race([editing, sleep(300).then(() => 'waits')]), 'waits');
    rmSync(at('hold'));
    assert.equal((await deploying).status, 'completed');
    assert.equal(deployed(), 'good');
    assert.equal((await editing).status, 'completed');
    assert.equal(readFileSync(at('plan.txt'), 'utf8'), 'evil');
  });

  it('control: no call waits for one whose preview reads no files', async () => {
    const deploying = approve('site.blind');
    await waitForStart();
    assert.equal((await edit()).status, 'completed');
    rmSync(at('hold'));
    assert.equal((await deploying).status, 'completed');
    assert.equal(deployed(), 'evil');
  });

  it("it waits for another agent's command, and renders its preview again after it", async () => {
    const slow = other.ask(2, 'site.slow', {});
    await waitForStart();
    const deploying = approve('site.deploy');
    await attempted();
    assert.equal(await Promise.race([deploying, sleep(300).then(() => 'waits')]), 'waits');
    rmSync(at('hold'));
    assert.equal((await slow).status, 'completed');
    const { status, error } = await deploying;
    assert.deepEqual([status, error?.code], ['failed', 'conflict']);
    assert.equal(existsSync(at('deployed.txt')), false);
  });

  it('a grant revoked while a call waits is gone', async () => {
    const slow = other.ask(2, 'site.slow', {});
    await waitForStart();
    const deploying = approve('site.deploy');
    await attempted();
    assert.equal(await Promise.race([deploying, sleep(300).then(() => 'waits')]), 'waits');
    const freeze =
      'forbid (principal, action == Action::"tool.call", resource == Tool::"site.deploy");';
    publishPolicy(world.dir, { coder: rights, site: freeze, version: 2 });
    for (let i = 0; i < 20; i++) world.clock.advance(500);
    rmSync(at('hold'));
    await slow;
    const { status, error } = await deploying;
    assert.deepEqual([status, error?.code], ['failed', 'denied']);
  });

  it('a call dismissed while it waits has done nothing', async () => {
    const slow = other.ask(2, 'site.slow', {});
    await waitForStart();
    const deploying = approve('site.deploy');
    const refused = assert.rejects(deploying, /dismissed/);
    await attempted();
    await host.asAgentd.dismissRun({ params: { id: run.id }, query: { fence: 1 } });
    await refused;
    rmSync(at('hold'));
    await slow;
    assert.equal(existsSync(at('deployed.txt')), false);
  });
});
