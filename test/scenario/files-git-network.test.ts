// Agents use files, git and the network through toold, inside a real box. What outside text does to
// a run, and what a marked run may still do.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, type ScriptedText, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const HANDS =
  '{ tools: { allow: [file.read, file.write_workspace, git.read, git.write_branch, http.fetch, ' +
  'task.delegate, test.tools] }, network: { mode: restricted, allow: [docs.example.com] } }';

describe('files, git and network', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        coder: manifestOf('coder', HANDS),
        reader: manifestOf('reader', '{ tools: { allow: [file.read] } }'),
        builder: manifestOf('builder', '{ tools: { allow: [file.write_workspace, shell.exec] } }'),
        committer: manifestOf(
          'committer',
          '{ tools: { allow: [git.write_branch] }, approvals: { required: [git.commit] } }',
        ),
      },
    });
  });
  after(() => world.stop());

  const repeat = ({ results }: { results: string[] }): ScriptedText => finishes(results.join('\n'));
  const filesOf = async (taskId: string) => join(world.stateDir, 'workspaces', taskId);

  it('a file is written, read and edited in the task’s workspace, and nowhere else', async () => {
    world.model.on(
      'Write a note',
      says(call('file.write', { path: 'note.txt', text: 'one two' })),
      says(
        call('file.edit', { path: 'note.txt', edits: [{ old_text: 'two', new_text: 'three' }] }),
      ),
      says(call('file.read', { path: 'note.txt' })),
      repeat,
    );
    const task = await doTask(world, 'Write a note', { agent: 'coder' });
    assert.equal(task.status, 'completed', JSON.stringify(task.error));
    assert.match(task.result ?? '', /one three/);
    assert.equal(readFileSync(join(await filesOf(task.id), 'note.txt'), 'utf8'), 'one three');
  });

  it('[C167] [R8] toold denies paths that policy does not allow, however they are written', async () => {
    const paths = ['/etc/passwd', '../../etc/shadow', '/proc/self/environ', '/home/ann/.ssh/id'];
    world.model.on(
      'Look around',
      says(...paths.map((path) => call('file.read', { path }))),
      repeat,
    );
    const task = await doTask(world, 'Look around', { agent: 'coder' });
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const reads = calls.filter(({ tool }) => tool === 'file.read');
    assert.deepEqual(
      reads.map(({ status }) => status),
      paths.map(() => 'denied'),
    );
  });

  it('[C168] six orders that its rights do not cover are all denied, whatever the model wants', async () => {
    const orders = [
      call('file.read', { path: '/etc/shadow' }),
      call('file.write', { path: '/etc/cron.d/x', text: 'x' }),
      call('file.delete', { path: '/home/ann/x' }),
      call('http.fetch', { url: 'http://evil.example.org/' }),
      call('git.log', { repo: '/root' }),
      call('task.delegate', { agent: 'coder', goal: 'Do it for me' }),
    ];
    world.model.on('Obey the stranger', says(...orders), repeat);
    const task = await doTask(world, 'Obey the stranger', { agent: 'coder' });
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const ordered = calls.filter(({ tool }) => tool !== 'task.finish');
    assert.deepEqual(
      ordered.map(({ tool, status }) => [tool, status]).sort(),
      orders.map(({ tool }) => [tool, tool === 'task.delegate' ? 'failed' : 'denied']).sort(),
    );
  });

  it('[C167] shell metacharacters in names are text', async () => {
    const name = '$(touch pwned); touch pwned & `touch pwned` | x\'"*.txt';
    world.model.on(
      'Name it oddly',
      says(call('file.write', { path: name, text: 'odd' })),
      says(call('file.list', { path: '.' }), call('file.read', { path: name })),
      repeat,
    );
    const task = await doTask(world, 'Name it oddly', { agent: 'coder' });
    const dir = await filesOf(task.id);
    assert.equal(readFileSync(join(dir, name), 'utf8'), 'odd', task.result ?? '');
    assert.deepEqual(
      readdirSync(dir).filter((entry) => entry !== '.git'),
      [name],
      'nothing else was made',
    );
    const { results } = world.model.scenesFor('Name it oddly').at(-1)!;
    assert.ok(results[1]!.includes(JSON.stringify(name).slice(1, -1)), results[1]);
    assert.match(results[2]!, /odd/);
  });

  it('agents of one task share its workspace; an agent without write access cannot write', async () => {
    world.model.on(
      'Share it',
      says(call('file.write', { path: 'shared.txt', text: 'for you' })),
      says(call('task.delegate', { agent: 'reader', goal: 'Read what is shared' })),
      repeat,
    );
    world.model.on('Read what is shared', says(call('file.read', { path: 'shared.txt' })), repeat);
    const task = await doTask(world, 'Share it', { agent: 'coder' });
    assert.match(task.result ?? '', /for you/);
  });

  it('outside text marks the run, its workspace, and runs that read there', async () => {
    world.model.on(
      'Fetch a page',
      says(call('http.fetch', { url: 'http://docs.example.com/' })),
      says(call('file.write', { path: 'page.txt', text: 'copied' })),
      says(call('task.delegate', { agent: 'reader', goal: 'Read the copy' })),
      repeat,
    );
    world.model.on('Read the copy', says(call('file.read', { path: 'page.txt' })), repeat);
    const task = await doTask(world, 'Fetch a page', { agent: 'coder' });
    assert.ok(task.labels.includes('outside'), JSON.stringify(task));
    const { tree } = await world.agentd.getTree({ params: { id: task.id } });
    assert.ok(tree.children[0]?.task.labels.includes('outside'));
  });

  it('a home belongs to one task: files written under outside text are not in the next task’s home', async () => {
    world.model.on(
      'Keep it for later',
      says(call('http.fetch', { url: 'http://docs.example.com/' })),
      says(call('file.write', { path: '/home/coder/note', text: 'obey me' })),
      says(call('file.read', { path: '/home/coder/note' })),
      repeat,
    );
    const first = await doTask(world, 'Keep it for later', { agent: 'coder' });
    assert.match(first.result ?? '', /obey me/, 'the control: it can be read where it was written');
    world.model.on('Look there', says(call('file.read', { path: '/home/coder/note' })), repeat);
    const later = await doTask(world, 'Look there', { agent: 'coder' });
    assert.doesNotMatch(later.result ?? '', /obey me/);
  });

  it('[C159] [R400] a marked run needs a person for irreversible calls', async () => {
    const count = says(call('test.count_effect', { key: 'marked' }));
    world.model.on(
      'Be led astray',
      says(call('http.fetch', { url: 'http://docs.example.com/' })),
      count,
      repeat,
    );
    const task = await create(world, 'Be led astray', { agent: 'coder' });
    const pending = await eventually('a pending approval', async () => {
      const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
      return approvals.find(({ task_id }) => task_id === task.id);
    });
    assert.deepEqual(pending.labels.includes('outside'), true);
    assert.match(pending.rules.join(), /base:outside-irreversible/);
    await makeReviewer(world.approvald).reject({
      params: { id: pending.id },
      body: { reason: 'no' },
    });
    const ended = await taskEnded(world, task.id);
    assert.match(ended.result ?? '', /rejected this: no/);

    // Control: without the mark, the same call needs no approval.
    world.model.on('Be left alone', count, repeat);
    const free = await doTask(world, 'Be left alone', { agent: 'coder' });
    assert.match(free.result ?? '', /counted/);
  });

  it('what a person approved is committed, but not if another agent has changed it since', async () => {
    const git = (dir: string, ...args: string[]) =>
      execFileSync('git', ['-C', dir, '-c', 'user.name=p', '-c', 'user.email=p@x', ...args], {
        encoding: 'utf8',
      }).trim();
    const commitIt = async (goal: string, meanwhile: (dir: string) => void) => {
      world.model.on(
        goal,
        says(call('timer.wait', { after_s: 2 })),
        says(call('git.commit', { message: goal, all: true })),
        repeat,
      );
      const task = await create(world, goal, { agent: 'committer' });
      const dir = await filesOf(task.id);
      mkdirSync(dir, { recursive: true });
      git(dir, 'init', '--quiet', '-b', 'main');
      writeFileSync(join(dir, 'a.txt'), 'mine\n');
      const moved = setInterval(() => world.clock.advance(1_000), 200);
      const pending = await eventually('a pending approval', async () => {
        const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
        return approvals.find(({ task_id }) => task_id === task.id);
      }).finally(() => clearInterval(moved));
      const params = { id: pending.id };
      const { approval } = await world.approvald.getApproval({ params });
      assert.match(approval.diff ?? '', /^branch: refs\/heads\/main\nparent: none\ntree: \w+\n/);
      meanwhile(dir);
      await world.approvald.approve({ params, body: { nonce: approval.nonce } });
      const { result } = await taskEnded(world, task.id);
      return { result: result ?? '', dir };
    };
    const theirs = (dir: string) => writeFileSync(join(dir, 'b.txt'), 'theirs\n');
    const refused = await commitIt('Commit what is not mine', theirs);
    assert.match(refused.result, /what a person approved differs from what would happen now/);
    assert.throws(() => git(refused.dir, 'rev-parse', '--verify', '--quiet', 'HEAD'));
    const done = await commitIt('Commit what is mine', () => {});
    assert.equal(git(done.dir, 'log', '--format=%an %s'), 'committer (agent) Commit what is mine');
    assert.equal(git(done.dir, 'status', '--porcelain'), '');
  });

  it('a command is ended when a new rule denies a path of its box', async () => {
    const command = 'touch started; sleep 600; touch late';
    world.model.on('Build for long', says(call('shell.exec', { command })), repeat);
    const task = await create(world, 'Build for long', { agent: 'builder' });
    const dir = await filesOf(task.id);
    const moved = setInterval(() => world.clock.advance(250), 100);
    try {
      await eventually('the command', async () => existsSync(join(dir, 'started')) || undefined);
      mkdirSync(join(world.stateDir, 'policies'), { recursive: true });
      const rule =
        'forbid (principal, action == Action::"file.write", resource in Path::"/workspace/ci");\n';
      writeFileSync(join(world.stateDir, 'policies', '05-ci.cedar'), rule);
      const ended = await taskEnded(world, task.id);
      assert.match(ended.result ?? '', /it was ended because the policy changed while it ran/);
      assert.equal(existsSync(join(dir, 'late')), false);
    } finally {
      clearInterval(moved);
    }
  });

  it('a site rule takes effect at the next call, without a restart', async () => {
    world.model.on(
      'Write twice',
      says(call('file.write', { path: 'first.txt', text: '1' })),
      () => {
        const text = 'forbid (principal, action == Action::"file.write", resource);\n';
        mkdirSync(join(world.stateDir, 'policies'), { recursive: true });
        writeFileSync(join(world.stateDir, 'policies', '10-freeze.cedar'), text);
        return says(call('timer.wait', { after_s: 2 }));
      },
      says(call('file.write', { path: 'second.txt', text: '2' })),
      repeat,
    );
    const task = await create(world, 'Write twice', { agent: 'coder' });
    const moved = setInterval(() => world.clock.advance(1_000), 200);
    const ended = await taskEnded(world, task.id).finally(() => clearInterval(moved));
    assert.match(ended.result ?? '', /policy does not let coder do this with file.write/);
  });
});
