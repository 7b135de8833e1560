// Rules that change while an agent works: they take effect, are reported by name, and can be
// replayed against recorded decisions.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { AuditEvent } from '../../src/wire/events.ts';
import { eventually } from '../support/runtime.ts';
import { call, finishes, type ScriptedText, says } from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const noEcho = `@why("echoes are over")
forbid (principal == Agent::"coder", action == Action::"tool.call", resource == Tool::"test.echo");
`;

describe('policy', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        coder: manifestOf('coder', '{ tools: { allow: [test.tools, file.read] } }'),
        other: manifestOf('other', '{ tools: { allow: [test.tools] } }'),
      },
    });
  });
  after(() => world.stop());

  const repeat = ({ results }: { results: string[] }): ScriptedText => finishes(results.join('\n'));
  const echo = async (goal: string, agent = 'coder'): Promise<string> => {
    world.model.on(goal, says(call('test.echo', { text: 'it works' })), repeat);
    return (await doTask(world, goal, { agent })).result ?? '';
  };
  const rulesFile = () => join(world.stateDir, 'policies', '10-echo.cedar');
  const version = async () => (await world.agentd.getPolicy({})).policy.version;
  const published = (than: number) =>
    eventually('a newer policy', async () => ((await version()) > than ? true : undefined));
  const eventsOf = async (kind: string): Promise<AuditEvent[]> =>
    (await world.audit.events({ query: { event: kind, order: 'desc', limit: 50 } })).events;

  it('[R311] [R319] [R431] [R468] a new rule takes effect at the next call, and its name is in the log', async () => {
    assert.match(await echo('Echo before'), /it works/);
    const before = await version();
    writeFileSync(rulesFile(), noEcho, { mode: 0o600 });
    await published(before);
    // The deciding daemon watches the file by itself.
    const denied = await eventually('the rule to hold', async () => {
      const result = await echo(`Echo after ${Math.random()}`);
      return /echoes are over/.test(result) ? result : undefined;
    });
    assert.doesNotMatch(denied, /it works/);
    const event = await eventually(
      'the denial in the log',
      async () => (await eventsOf('tool.call.denied'))[0],
    );
    assert.equal(event.policy, 'site:10-echo.cedar:1');
    assert.equal(event?.data?.answer, 'deny');
    assert.match(await echo('Echo as another', 'other'), /it works/);
    const { rules } = await world.agentd.showPolicy({ params: { name: 'coder' } });
    assert.ok(rules.some(({ id, why }) => id === event?.policy && why === 'echoes are over'));
  });

  it('an invalid rule file changes nothing and is reported', async () => {
    writeFileSync(rulesFile(), 'forbid (principal', { mode: 0o600 });
    await eventually('the refusal', async () => (await eventsOf('policy.refused'))[0]);
    const { policy } = await world.agentd.getPolicy({});
    assert.equal(policy.problems[0]?.line, 1);
    assert.match(await echo('Echo while it is broken'), /echoes are over/);
  });

  it('removing the file removes the rule', async () => {
    const before = await version();
    rmSync(rulesFile());
    await published(before);
    await eventually('the rule to be removed', async () =>
      /it works/.test(await echo(`Echo again ${Math.random()}`)) ? true : undefined,
    );
  });

  it('a change is replayed against recorded decisions and lists those that would change', async () => {
    const files = [{ name: '20-try.cedar', text: noEcho }];
    const { simulation } = await world.agentd.simulatePolicy({ body: { files } });
    const echoes = (await eventsOf('tool.call.attempted')).filter(
      ({ tool, agent }) => tool === 'test.echo' && agent === 'coder',
    );
    assert.ok(echoes.length >= 2);
    assert.deepEqual(
      simulation.changes
        .filter(({ recorded }) => recorded.answer === 'allow')
        .map(({ event }) => event)
        .sort(),
      echoes.map(({ id }) => id).sort(),
    );
    assert.ok(
      simulation.changes.every(({ tool, agent }) => tool === 'test.echo' && agent === 'coder'),
    );
    assert.equal(simulation.unreadable, 0);
    const { simulation: same } = await world.agentd.simulatePolicy({
      body: { files: [{ name: '20-try.cedar', text: '// nothing' }] },
    });
    // Denied then by a rule that no longer exists: it would be allowed now, without any change.
    assert.ok(
      same.changes.every(
        ({ recorded, today }) => recorded.answer === 'deny' && today.answer === 'allow',
      ),
    );
  });

  it('[R93] [R312] a file tool’s path is checked too', async () => {
    world.model.on('Read a secret', says(call('file.read', { path: '/etc/passwd' })), repeat);
    await doTask(world, 'Read a secret', { agent: 'coder' });
    const event = await eventually('the denial in the log', async () =>
      (await eventsOf('tool.call.denied')).find(({ tool }) => tool === 'file.read'),
    );
    assert.equal(event.policy, 'base:etc');
    assert.deepEqual(event.data?.touch_1, '["file.read","/etc/passwd",false]');
  });

  it('a capability removed from a manifest is revoked', async () => {
    const before = await version();
    await world.agentd.putAgent({
      params: { name: 'other' },
      body: { manifest_yaml: manifestOf('other', '{}') },
    });
    assert.ok((await version()) > before);
    const { rules } = await world.agentd.showPolicy({ params: { name: 'other' } });
    assert.ok(!rules.some(({ id }) => id.startsWith('manifest:other:tool.call')));
  });
});
