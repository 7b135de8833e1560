// sandboxd.identity users: an agent runs as the account that its manifest names, in its runner and
// in its tools; an account that cannot be used is refused with the reason.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually, startRuntime, type TestRuntime } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { doTask, scriptedModels } from '../support/scripted-world.ts';

const IS_ROOT = process.getuid?.() === 0;
/** Accounts created for this test, in a range that hosts leave free. */
const FIRST = 61_650;
const ACCOUNTS = { 'agentd-t-coder': FIRST + 1, 'agentd-t-ops': FIRST + 2 };

const agent = (name: string, linuxUser: string) => `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: Works. }
spec:
  linuxUser: ${linuxUser}
  tools: { allow: [shell.exec, task.delegate, file.read, file.write_workspace] }
`;

function host(command: string, ...words: string[]): void {
  const { status, stderr } = spawnSync(command, words, { encoding: 'utf8' });
  assert.equal(status, 0, `${command} ${words.join(' ')}: ${stderr}`);
}

describe('accounts of the host', { skip: IS_ROOT ? false : 'needs root' }, () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    for (const [name, id] of Object.entries(ACCOUNTS)) {
      // Left by an earlier, interrupted run of this test.
      for (const command of ['userdel', 'groupdel']) spawnSync(command, [name]);
      host('groupadd', '-g', String(id), name);
      host('useradd', '-u', String(id), '-g', String(id), '-M', '-s', '/bin/false', name);
    }
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: {
        coder: agent('coder', 'agentd-t-coder'),
        ops: agent('ops', 'agentd-t-ops'),
        lost: agent('lost', 'agentd-t-nobody'),
      },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        agentd: { crashes_max: 0 },
        sandboxd: { identity: 'users', uid_first: FIRST, uid_last: FIRST + 100 },
      }),
    });
  });
  after(async () => {
    try {
      await runtime?.remove();
    } finally {
      await model?.close();
      // Removing the account removes its group. Fails while one of its processes is still exiting.
      for (const name of Object.keys(ACCOUNTS))
        await eventually(`${name} to be removed`, async () => host('userdel', name) ?? true);
    }
  });

  it('[C12] [R191] [R425] an agent runs as the account its manifest names, in runner, tools and files', async () => {
    const who = (name: string) =>
      call('shell.exec', {
        command: `id -u; id -un; echo ${name} > ${name}.txt; echo of ${name} > ~/own; ls /home`,
      });
    model.on(
      'Who am I',
      says(who('coder')),
      says(call('task.delegate', { agent: 'ops', goal: 'Who are you' })),
      ({ results }) => finishes(results.join(' ')),
    );
    model.on(
      'Who are you',
      says(who('ops')),
      says(
        call('shell.exec', {
          command: 'cat coder.txt; echo more >> coder.txt; cat /home/coder/own',
        }),
      ),
      ({ results }) => finishes(results.join(' ')),
    );
    const task = await doTask(runtime, 'Who am I', { agent: 'coder' });
    assert.equal(task.status, 'completed');
    assert.match(task.result ?? '', /61651\\nagentd-t-coder\\ncoder\\n/);
    assert.match(task.result ?? '', /61652.{1,8}agentd-t-ops.{1,8}ops/);
    assert.match(task.result ?? '', /No such file/, 'another agent’s home is not visible');
    const { boxes } = await runtime.sandboxd.listBoxes({ query: { limit: 100 } });
    for (const [name, id] of [
      ['coder', FIRST + 1],
      ['ops', FIRST + 2],
    ] as const) {
      const own = boxes.filter((box) => box.agent === name);
      assert.deepEqual([...new Set(own.map(({ kind }) => kind))].sort(), ['runner', 'tools']);
      assert.ok(own.every(({ uid }) => uid === id));
      // On the host: the files have their owners, and the home is private.
      const { stateDir } = runtime;
      assert.equal(statSync(join(stateDir, 'workspaces', task.id, `${name}.txt`)).uid, id);
      const home = join(stateDir, 'homes', task.id, name);
      assert.equal(statSync(join(home, 'own')).uid, id);
      assert.equal(statSync(home).uid, id);
      assert.equal(statSync(home).mode & 0o077, 0);
    }
  });

  it('a missing account is refused, and the task has the reason', async () => {
    const task = await doTask(runtime, 'Nothing', { agent: 'lost' });
    assert.equal(task.status, 'failed');
    assert.match(JSON.stringify(task), /account agentd-t-nobody not found/);
  });

  it('the host report lists agents without an account and the command to create one', async () => {
    const { features } = await runtime.sandboxd.features({});
    const users = features.find(({ name }) => name === 'users');
    assert.equal(users?.works, false);
    assert.match(users?.detail ?? '', /account agentd-t-nobody not found/);
    assert.match(users?.fix ?? '', /^groupadd -g 61650 agentd-t-nobody && useradd -u 61650/);
  });
});
