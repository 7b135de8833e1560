// What a person approved is what happens, from the ask to the effect: with real tools on real
// files, and a colleague who changes them at every moment in between.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { openTestBox, type TestBox } from '../../../test/support/test-box.ts';
import {
  answerAsPerson,
  hostToold,
  makeWorld,
  publishPolicy,
  type TestHost,
  type TestRun,
  type World,
} from './testing/host.ts';
import { fakeSandboxd } from './testing/sandboxd.ts';

const DECLARED = (program: string) => `name: site.deploy
description: For tests.
argv: [${program}]
preview: [cat, plan.txt]
risk: high
reversibility: irreversible
idempotent: false
approval: required
`;

let world: World;
let box: TestBox;
let host: TestHost;
let run: TestRun;
/** What a colleague does at a moment of toold's. */
let meanwhile: { moment: string; work: () => void };
const at = (name: string) => join(box.workspace, name);
const git = (...args: string[]) =>
  execFileSync('git', ['-C', box.workspace, '-c', 'user.name=p', '-c', 'user.email=p@x', ...args], {
    encoding: 'utf8',
  }).trim();

const TOOLS = ['git.commit', 'file.write', 'file.delete', 'delete.recursive', 'site.deploy'];
beforeEach(async () => {
  [world, box] = [makeWorld(), await openTestBox()];
  meanwhile = { moment: 'never', work: () => {} };
  const required = TOOLS.filter((name) => name !== 'site.deploy');
  const filesystem = { write: [box.workspace] };
  const allow = [...TOOLS, 'file.write_workspace', 'git.write_branch'];
  const coder = { tools: { allow }, approvals: { required }, filesystem };
  publishPolicy(world.dir, { coder });
  mkdirSync(join(world.dir, 'state/tools'));
  const program = at('deploy.sh');
  writeFileSync(program, `#!/bin/sh\ncat plan.txt > deployed.txt\n`, { mode: 0o755 });
  writeFileSync(join(world.dir, 'state/tools/deploy.yaml'), DECLARED(program), { mode: 0o600 });
  host = await hostToold(world, {
    sandboxd: fakeSandboxd(box.box),
    moment: (name) => name === meanwhile.moment && meanwhile.work(),
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
  theirs: () => void;
  /** True when what the colleague made was taken, changed or lost. */
  isHarmed: () => boolean;
  /** True when what was approved has happened. */
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
    theirs: () => writeFileSync(at('b'), 'theirs\n'),
    isHarmed: () => git('show', '--stat', 'main').includes(' b '),
    isDone: () => git('log', '-1', '--format=%s') === 'work',
  },
  {
    tool: 'file.write',
    args: () => ({ path: at('a'), text: 'mine' }),
    prepare: () => writeFileSync(at('a'), 'before'),
    theirs: () => writeFileSync(at('a'), 'theirs'),
    isHarmed: () => readFileSync(at('a'), 'utf8') !== 'theirs',
    isDone: () => readFileSync(at('a'), 'utf8') === 'mine',
  },
  {
    tool: 'file.delete',
    args: () => ({ path: at('a') }),
    prepare: () => writeFileSync(at('a'), 'before'),
    theirs: () => writeFileSync(at('a'), 'theirs'),
    isHarmed: () => !existsSync(at('a')),
    isDone: () => !existsSync(at('a')),
  },
  {
    tool: 'delete.recursive',
    args: () => ({ path: at('d') }),
    prepare: () => mkdirSync(at('d')),
    theirs: () => writeFileSync(at('d/a'), 'theirs'),
    isHarmed: () => !existsSync(at('d/a')),
    isDone: () => !existsSync(at('d')),
  },
  {
    tool: 'site.deploy',
    args: () => ({}),
    prepare: () => writeFileSync(at('plan.txt'), 'good'),
    theirs: () => writeFileSync(at('plan.txt'), 'evil'),
    isHarmed: () => existsSync(at('deployed.txt')),
    isDone: () => existsSync(at('deployed.txt')),
  },
];

for (const row of ROWS)
  describe(`${row.tool} that a person approved`, () => {
    const ask = () => run.ask(1, row.tool, row.args());
    const askAndApprove = async () => {
      row.prepare();
      const first = await ask();
      assert.equal(first.status, 'waiting', JSON.stringify(first));
      answerAsPerson(world, run.callId(1), { decision: 'approved' });
    };

    it('happens when nobody comes in between', async () => {
      await askAndApprove();
      const done = await ask();
      assert.equal(done.status, 'completed', JSON.stringify(done));
      assert.ok(row.isDone());
    });

    it('is refused when a colleague changed it before the answer, and says to ask again', async () => {
      await askAndApprove();
      row.theirs();
      const { status, error } = await ask();
      assert.deepEqual([status, error?.code], ['denied', 'changed']);
      assert.match(error?.hint ?? '', /ask again/);
      assert.equal(row.isHarmed(), false);
    });

    it('takes nothing that a colleague put there between the answer and the effect', async () => {
      await askAndApprove();
      meanwhile = { moment: 'toold.after-attempt-durable', work: row.theirs };
      const done = await ask();
      assert.equal(row.isHarmed(), false, JSON.stringify(done));
      // A commit is made of what was shown; what cannot be done on that is not done.
      if (row.tool === 'git.commit') assert.ok(row.isDone());
      else assert.deepEqual([done.status, done.error?.code], ['failed', 'conflict']);
    });
  });

describe('what a person edited before approving', () => {
  it('is done on what they saw, or not at all', async () => {
    writeFileSync(at('a'), 'before');
    const ask = (n: number) => run.ask(n, 'file.write', { path: at('a'), text: 'mine' });
    const edited = { path: at('a'), text: 'better' };
    for (const n of [1, 2]) {
      await ask(n);
      answerAsPerson(world, run.callId(n), { decision: 'approved', edited });
    }
    meanwhile = {
      moment: 'toold.after-attempt-durable',
      work: () => writeFileSync(at('a'), 'theirs'),
    };
    assert.equal((await ask(1)).error?.code, 'conflict');
    assert.equal(readFileSync(at('a'), 'utf8'), 'theirs');
    writeFileSync(at('a'), 'before');
    meanwhile.moment = 'never';
    assert.equal((await ask(2)).status, 'completed', 'the control');
    assert.equal(readFileSync(at('a'), 'utf8'), 'better');
  });
});
