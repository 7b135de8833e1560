// A manifest's disk limit is enforced: a command that writes more is ended, file writes fail, and
// the agent can delete files and continue.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  type ScriptedText,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, manifestOf, scriptedModels } from '../support/scripted-world.ts';

const TOOLS = 'tools: { allow: [shell.exec, file.read, file.write_workspace, file.delete] }';
/** More than is allowed, but little enough that deleting four files suffices. */
const FILL = 'for i in 1 2 3 4 5; do head -c 8000000 /dev/zero >f$i; sleep 0.2; done; sleep 50';

describe('the disk of a manifest', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: {
        small: manifestOf('small', `{ ${TOOLS}, resources: { disk: 20M } }`),
        large: manifestOf('large', `{ ${TOOLS}, resources: { disk: 1G } }`),
        site: manifestOf('site', `{ ${TOOLS} }`),
      },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        sandboxd: { box_disk_bytes: 200_000_000 },
      }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });
  const joinResults = ({ results }: { results: string[] }): ScriptedText =>
    finishes(results.join('\n'));
  const run = async (agent: string, ...calls: [string, Record<string, unknown>][]) => {
    const goal = `${agent} does ${JSON.stringify(calls).slice(0, 60)} ${calls.length}`;
    model.on(goal, ...calls.map(([tool, input]) => says(call(tool, input))), joinResults);
    const task = await create(runtime, goal, { agent });
    return (await taskEnded(runtime, task.id)).result ?? '';
  };
  const sh = (command: string): [string, Record<string, unknown>] => ['shell.exec', { command }];
  const write = (path: string): [string, Record<string, unknown>] => [
    'file.write',
    { path, text: 'x'.repeat(1_000) },
  ];

  it('a command over the limit is ended, writes fail, and deleting files frees space', async () => {
    const output = await run(
      'small',
      sh(FILL),
      write('more'),
      sh('head -c 3000000 /dev/zero >more; ls more; rm f1 f2 f3'),
      ['file.delete', { path: 'f4' }],
      write('now'),
      sh('head -c 3000000 /dev/zero >again && wc -c again now'),
    );
    assert.match(output, /ended by its limit of disk/);
    assert.match(output, /its files use \d\d\.\d MiB, and 20\.0 MiB are allowed/);
    assert.match(output, /use \d\d\.\d MiB of 20\.0 MiB/);
    assert.match(output, /nothing could be written. Delete files that are not needed/);
    assert.match(output, /3000000 again/);
    assert.match(output, /1000 now/);
  });
  it('the kernel limits a single file, to the agent’s own limit', async () => {
    const one = 'head -c 40000000 /dev/zero >big; ls -s --block-size=1 big; wc -c <big';
    assert.doesNotMatch(await run('small', sh(one)), /40000000/);
    assert.match(await run('large', sh(one)), /40000000/, 'control');
  });
  it('the site’s limit applies if a manifest sets none or a higher one', async () => {
    const one = 'head -c 300000000 /dev/zero >big; wc -c <big';
    for (const agent of ['site', 'large'])
      assert.doesNotMatch(await run(agent, sh(one)), /300000000/, agent);
  });
});
