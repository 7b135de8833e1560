// agentctl du: sizes by kind and by agent, and what the retention would free; nothing is removed.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ctl, ctlJson } from '../support/backups.ts';
import { writeInBox } from '../support/prune.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

type UsageDocument = {
  usage: {
    kinds: {
      kind: string;
      bytes: number;
      agents: { agent: string; bytes: number }[];
      would_free_bytes: number | null;
    }[];
    databases: { name: string; bytes: number }[];
    disk: { size_bytes: number; free_bytes: number };
  };
};

describe('agentctl du', () => {
  let runtime: TestRuntime;
  before(async () => {
    const retention = { artifacts: { age: 'never', size: '1M' } };
    const config = JSON.stringify({ retention });
    runtime = await startRuntime({ base: freshDir(), agents: TEAM, config });
  });
  after(() => runtime.remove());

  it('shows what takes how much, by agent, and what would go', async () => {
    const { agentd } = runtime;
    const text = 'x'.repeat(900_000);
    await agentd.putArtifact({ body: { name: 'a', text } });
    const { task } = await agentd.createTask({ body: { goal: 'Hold still', agent: 'coder' } });
    await agentd.cancelTask({ params: { id: task.id }, body: {} });
    await writeInBox(runtime, task.id, 'head -c 300000 /dev/zero > a');
    const read = async (...words: string[]) => {
      const { usage } = await ctlJson<UsageDocument>(runtime, ['du', ...words]);
      return { ...usage, of: (name: string) => usage.kinds.find(({ kind }) => kind === name)! };
    };
    const found = await eventually('a measurement', async () => {
      const usage = await read('--quick');
      return usage.of('workspaces').bytes > 290_000 ? usage : undefined;
    });
    assert.deepEqual(
      found.of('workspaces').agents.map(({ agent }) => agent),
      ['coder'],
    );
    assert.ok(found.of('artifacts').bytes >= 900_000);
    assert.match(found.of('artifacts').agents[0]!.agent, /^person:/);
    assert.equal(found.of('artifacts').would_free_bytes, null, '--quick leaves it out');
    for (const kind of ['tasks', 'audit', 'logs', 'model_contexts'])
      assert.ok(found.of(kind).bytes > 0, kind);
    assert.ok(found.databases.some(({ name }) => name === 'agentd'));
    assert.ok(found.disk.free_bytes > 0 && found.disk.free_bytes <= found.disk.size_bytes);

    const full = await read();
    assert.equal(full.of('artifacts').would_free_bytes, 0);
    const { stdout } = await ctl(runtime, ['du']);
    assert.match(stdout, /^KIND +SIZE +WOULD FREE +LIMIT +LARGEST/);
    assert.match(stdout, /workspaces .* 90d, 50\.0 GiB +coder /);
  });
});
