// Episodes of ended tasks stay within the configured retention: by age and by their number in a
// scope. Holds and rules keep them, `du` and dry runs show them, other memories stay.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { PruneReport } from '../../src/wire/agentd.ts';
import { findKind, prune } from '../support/prune.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import { finishes } from '../support/scripted-model.ts';
import {
  doTask,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const DAY_MS = 86_400_000;
const KIND = { kinds: ['memories' as const] };
const keptOf = (report: PruneReport) =>
  Object.fromEntries(findKind(report, 'memories').kept.map((kept) => [kept.reason, kept.count]));

describe('retention of episodes', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      retention: { memories: { age: '90d', per_scope: 10 } },
      policies: {
        '10-keep': `
@why("the researcher's memory is evidence")
forbid (principal, action == Action::"data.delete", resource in Scope::"memories:researcher");
@why("what the planner did is not remembered for more than two days")
forbid (principal == Service::"agentd", action == Action::"data.retain", resource in Scope::"memories:planner")
when { context has age_days && context.age_days > 2 };
`,
      },
    });
    world.model.on('Do it', finishes('done'));
  });
  after(() => world.stop());

  const listOf = async (agent: string) => {
    const query = { scope: `agent:${agent}`, limit: 100 };
    return (await world.memoryd.listMemories({ query })).memories;
  };
  async function endTask(agent: string): Promise<string> {
    const task = await doTask(world, 'Do it', { agent });
    await eventually('its episode', async () =>
      (await listOf(agent)).some(({ task_id }) => task_id === task.id) ? true : undefined,
    );
    return task.id;
  }
  /** The runtime's own hourly pass. */
  const pass = async (afterMs: number): Promise<PruneReport> => {
    const startedBefore = (await world.agentd.getPrune({ query: {} })).prune?.started_at;
    world.clock.advance(afterMs);
    return eventually('the pass', async () => {
      const { prune: report } = await world.agentd.getPrune({ query: {} });
      const isNew = report?.started_at !== startedBefore;
      return report?.status === 'completed' && isNew ? report : undefined;
    });
  };

  it('a scope keeps its newest, a held task keeps its episode, and a fact stays', async () => {
    const body = { class: 'semantic', scope: 'agent:coder', text: 'Herons stand still.' } as const;
    const { memory: fact } = await world.memoryd.remember({ body });
    const held = await endTask('coder');
    await world.agentd.keepTask({ params: { id: held as never }, body: { kept: true } });
    const others: string[] = [];
    for (let n = 0; n < 6; n++) others.push(await endTask('coder'));
    const early = await pass(5 * 60_000);
    assert.equal(findKind(early, 'memories').pruned, 0, 'nothing of the last hour');
    const report = await pass(2 * 60 * 60_000);
    assert.equal(findKind(report, 'memories').pruned, 2);
    assert.deepEqual(keptOf(report), { held: 2 });
    const left = await listOf('coder');
    const tasks = new Set(left.map(({ task_id }) => task_id));
    assert.deepEqual([...tasks].toSorted(), [null, held, ...others.slice(1)].toSorted());
    assert.ok(left.some(({ id }) => id === fact.id));
    const events = (await allEvents(world)).filter(({ event }) => event === 'memory.pruned');
    assert.deepEqual(
      events.map(({ data, principal }) => [data?.cause, principal]),
      Array.from({ length: 2 }, () => [
        'retention.memories keeps up to 10 episodes of agent:coder',
        'service:agentd',
      ]),
    );
    await eventually('journal = log', () => assertReconciled(world));
  });

  it('[R30] what is too old goes, unless a rule keeps it; a dry run only counts', async () => {
    await endTask('researcher');
    const { usage } = await world.agentd.getDiskUsage({});
    const memories = usage.kinds.find(({ kind }) => kind === 'memories')!;
    assert.ok(memories.bytes > 0 && memories.age_s === 90 * 86_400);
    assert.ok(memories.agents.some(({ agent, bytes }) => agent === 'coder' && bytes > 0));
    const dry = await prune(world, { ...KIND, older_than_s: 0, dry_run: true });
    assert.equal(findKind(dry, 'memories').pruned, 10);
    assert.deepEqual(keptOf(dry), { held: 2, policy: 2 });
    assert.equal((await listOf('coder')).length, 13, 'nothing is gone');
    const report = await pass(91 * DAY_MS);
    assert.equal(findKind(report, 'memories').pruned, 10);
    assert.deepEqual(keptOf(report), { held: 2, policy: 2 });
    assert.equal((await listOf('coder')).length, 3);
    assert.equal((await listOf('researcher')).length, 2);
  });

  it('a rule about data.retain removes early', async () => {
    await endTask('planner');
    assert.equal(findKind(await pass(DAY_MS), 'memories').pruned, 0);
    assert.equal(findKind(await pass(3 * DAY_MS), 'memories').pruned, 2);
    assert.deepEqual(await listOf('planner'), []);
  });

  it('pruning a task tree takes its episodes along, and no others', async () => {
    const [one, other] = [await endTask('coder'), await endTask('coder')];
    const [episode] = (await listOf('coder')).filter(({ task_id }) => task_id === one);
    await prune(world, { root_task_ids: [one as never] });
    const tasks = (await listOf('coder')).map(({ task_id }) => task_id);
    assert.ok(tasks.includes(other as never) && !tasks.includes(one as never));
    const params = { id: episode!.id };
    await refusedWith('not_found', world.memoryd.getMemory({ params, query: {} }));
    await eventually('journal = log', () => assertReconciled(world));
  });
});
