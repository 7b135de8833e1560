// Proposals that nobody decides on end by themselves, and so do their approvals; what is decided is
// removed when its time has come.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { approvaldRoutes } from '../../src/wire/approvald.ts';
import { Fault } from '../../src/wire/errors.ts';
import type { MemoryView, NewMemory } from '../../src/wire/memoryd/records.ts';
import { eventually } from '../support/runtime.ts';
import { type ScriptedWorld, startScriptedWorld } from '../support/scripted-world.ts';

describe('the end of proposals', { timeout: 120_000 }, () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ approvald: { proposal_expires_s: 60 } });
  });
  after(() => world.stop());

  const propose = async (text: string): Promise<MemoryView> => {
    const body: NewMemory = { class: 'semantic', scope: 'team', text };
    return (await world.memoryd.proposeMemory({ body })).memory;
  };
  const approvalOf = (id: string) =>
    eventually('its approval', async () => {
      const { approvals } = await world.approvald.listApprovals({ query: { limit: 1000 } });
      return approvals.find(({ memory }) => memory?.memory_id === id);
    });

  it('one that nobody decides on expires, in both places', async () => {
    const { id } = await propose('The curlew is late.');
    const approval = await approvalOf(id);
    world.clock.advance(61_000);
    const { memory } = await eventually('its end', async () => {
      const found = await world.memoryd.getMemory({ params: { id }, query: {} });
      return found.memory.status === 'expired' ? found : undefined;
    });
    assert.equal(memory.status, 'expired');
    const params = { id: approval.id };
    assert.equal((await world.approvald.getApproval({ params })).approval.status, 'expired');
    const late = world.memoryd.approveMemory({ params: { id } });
    await assert.rejects(late, (error) => error instanceof Fault && error.code === 'conflict');
    const agentd = makeClient(
      approvaldRoutes,
      socketLink({ socketPath: socketPathFor(world.runtimeDir, 'approvald', 'peer-agentd') }),
    );
    const before = new Date(world.clock.nowMs() + 1_000).toISOString();
    const { expired } = await agentd.expireTombstones({ body: { before } });
    assert.ok(expired >= 1);
    const gone = world.approvald.getApproval({ params });
    await assert.rejects(gone, (error) => error instanceof Fault && error.code === 'not_found');
    assert.equal((await world.memoryd.getMemory({ params: { id }, query: {} })).memory.id, id);
  });
});
