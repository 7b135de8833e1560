// The kernel gives the box of an agent's tools the resources that the manifest states.
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

const SHELL = 'tools: { allow: [shell.exec, file.write_workspace] }';
/** As many processes as asked for, at the same time, and how many of them there were. */
const PROCESSES = 'for i in $(seq 40); do (sleep 3; echo up) & done; wait';
const MEMORY = 'head -c 200000000 /dev/zero | tail -c 200000000 | wc -c';

describe('resources of a manifest', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: {
        slow: manifestOf('slow', `{ ${SHELL}, resources: { cpu: 0.2 } }`),
        small: manifestOf('small', `{ ${SHELL}, resources: { memory: 64M, pids: 16 } }`),
        large: manifestOf('large', `{ ${SHELL}, resources: { memory: 1G, pids: 256 } }`),
      },
      config: JSON.stringify({ modeld: scriptedModels(model.url) }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });
  const tell = ({ results }: { results: string[] }): ScriptedText => finishes(results.join('\n'));
  const run = async (agent: string, command: string) => {
    const goal = `${agent} runs ${command}`;
    model.on(goal, says(call('shell.exec', { command })), tell);
    const task = await create(runtime, goal, { agent });
    return (await taskEnded(runtime, task.id)).result ?? '';
  };

  it('[R206] processes: so many and no more', async () => {
    const ups = (text: string) => text.match(/up/g)?.length ?? 0;
    const [small, large] = [await run('small', PROCESSES), await run('large', PROCESSES)];
    assert.match(await run('small', 'echo fine'), /fine/, 'control');
    assert.ok(ups(small) < 16, small);
    assert.equal(ups(large), 40, large);
  });
  it('[R204] processors: so much of them and no more', async () => {
    // Ended by the clock, or by two seconds of processor time: a fifth of one has no two in six.
    const spin = (wall: number) =>
      `(ulimit -t 2; timeout ${wall} sh -c 'while :; do :; done'); echo ended with $?`;
    const { features } = await runtime.sandboxd.features({});
    const isHeld = features.find(({ name }) => name === 'quota')!.works;
    assert.match(await run('slow', spin(isHeld ? 6 : 60)), isHeld ? /with 124/ : /with 1[35]\d/);
    assert.match(await run('large', spin(60)), /with 1[35]\d/, 'control');
  });
  it('[R205] memory: so much and no more', async () => {
    const [small, large] = [await run('small', MEMORY), await run('large', MEMORY)];
    assert.doesNotMatch(small, /200000000/);
    assert.match(large, /200000000/);
  });
});
