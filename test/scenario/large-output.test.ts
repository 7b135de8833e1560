// Command output is held in memory until it is an artifact. A command may print 4 MiB; the memory
// this takes has a bound: for one command, for the worst content, and for many at once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, manifestOf, scriptedModels } from '../support/scripted-world.ts';

const MIB = 1_048_576;
const PRINTED = 4_190_000;
const TOOLS = 'tools: { allow: [shell.exec, file.write_workspace] }, replicas: 32';
const TEXT = `yes 'a line of some length that a program prints' | head -c ${PRINTED}`;
const HIDDEN = `head -c ${PRINTED} /dev/zero`;

describe('large outputs', { timeout: 180_000 }, () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: { loud: manifestOf('loud', `{ ${TOOLS} }`) },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        agentd: { runs_live_max: 32 },
      }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });
  /** A runner may have ended before it is read. */
  const read = (file: string): string => {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      return '';
    }
  };
  const treeOf = (pid: number): number[] => {
    const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean);
    return [pid, ...children.map(Number).flatMap(treeOf)];
  };
  /** Peak memory of the runtime's largest process, which holds the daemons. */
  const peakBytes = (): number => {
    const peaks = treeOf(runtime.process.pid!).map((pid) =>
      Number(/VmHWM:\s+(\d+) kB/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0),
    );
    return Math.max(...peaks) * 1_024;
  };
  let made = 0;
  const print = async (command: string) => {
    const goal = `print ${made++} times`;
    model.on(goal, says(call('shell.exec', { command })), ({ results }) =>
      finishes(results.join('').slice(0, 200)),
    );
    const task = await create(runtime, goal, { agent: 'loud' });
    return (await taskEnded(runtime, task.id)).result ?? '';
  };

  it('are stored completely with bounded memory: text, hidden characters, many at once', async () => {
    await print('echo first');
    const idle = peakBytes();
    assert.match(await print(TEXT), /"artifact":"artifact:/);
    const text = peakBytes() - idle;
    assert.match(await print(HIDDEN), /"artifact":"artifact:/);
    const hidden = peakBytes() - idle;
    for (const result of await Promise.all(Array.from({ length: 24 }, () => print(TEXT))))
      assert.match(result, /"artifact":"artifact:/);
    const many = peakBytes() - idle;
    const inMib = [text, hidden, many].map((bytes) => Math.round(bytes / MIB));
    console.log(
      `one of text ${inMib[0]} MiB, of hidden characters ${inMib[1]}, 24 of text ${inMib[2]}`,
    );
    assert.ok(inMib[0]! < 200 && inMib[1]! < 250 && inMib[2]! < 800, inMib.join(' '));
  });
});
