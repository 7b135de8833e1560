// SIGKILL of each daemon while it removes the copies of a forgotten memory. After each: the removal
// is completed, and nothing of the text is left.
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findFiles } from '../support/find-files.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const MOMENTS = [
  'memoryd.before-hand-over',
  'memoryd.after-hand-over',
  'maild.before-erase-copies',
  'maild.after-erase-copies',
  'memoryd.before-erase-copies',
  'memoryd.after-erase-copies',
  'agentd.before-erase-copies',
  'agentd.after-erase-copies',
  'agentd.before-end-erasures',
  'toold.before-erase-copies',
  'toold.after-erase-copies',
  'modeld.before-erase-copies',
  'modeld.after-erase-copies',
  'approvald.before-erase-copies',
  'approvald.after-erase-copies',
];

describe('killed while it forgets, in split mode', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime({ base, mode: 'split', faults: true });
  });
  after(async () => {
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  });

  for (const [n, failpoint] of MOMENTS.entries())
    it(failpoint, async () => {
      const word = `grebe${n}quorv`;
      const text = `The ${word} nests under the old jetty.`;
      const { stateDir } = runtime;
      const { memory } = await eventually('it to be remembered', () =>
        runtime.memoryd.remember({ body: { class: 'semantic', scope: 'project:app', text } }),
      );
      const { task } = await eventually('the task', () =>
        runtime.agentd.createTask({ body: { goal: `Say again: ${text}` } }),
      );
      await eventually('the artifact', () =>
        runtime.agentd.putArtifact({ body: { name: 'notes', text: `# ${text}` } }),
      );
      await eventually('its end', async () => {
        const { task: now } = await runtime.agentd.getTask({ params: { id: task.id } });
        return now.ended_at === null ? undefined : now;
      });
      const found = findFiles(stateDir, word).join(' ');
      for (const place of ['agentd.sqlite', 'modeld.sqlite', 'memory/journals', 'objects/'])
        assert.ok(found.includes(place), `control: ${place} in ${found}`);
      writeFileSync(crashFile, failpoint);
      await eventually('the forget', () => runtime.memoryd.forget({ body: { ids: [memory.id] } }));
      await eventually('the removal', async () => {
        const { memory: now } = await runtime.memoryd.getMemory({ params: { id: memory.id } });
        return now.erasure?.status === 'done' ? now : undefined;
      });
      assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
      assert.deepEqual(findFiles(stateDir, word), []);
    });
});
