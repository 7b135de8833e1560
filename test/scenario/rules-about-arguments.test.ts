// Rules about the arguments of a declared tool, through a whole runtime: the check knows the tool,
// calls are decided by what they would do, and a simulation reads the arguments from the record.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const TOOL = `name: site.publish
description: Publishes a branch.
argv: [/bin/sh, -c, 'echo "published $1"', --, '{branch}', { if: force, add: ['--force'] }]
input:
  branch: { type: string, pattern: '[a-z/]+' }
  force: { type: boolean, default: false }
risk: low
reversibility: reversible
idempotent: true
`;
const about = (effect: string, condition: string) =>
  `${effect} (principal, action == Action::"tool.call", resource == Tool::"site.publish")
when { ${condition} };
`;
const RULES =
  about('@why("nobody forces")\nforbid', 'context.arguments.force') +
  about('@ask("main is what customers see")\nforbid', 'context.arguments.branch == "main"');

describe('rules about arguments', { timeout: 60_000 }, () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        coder: manifestOf(
          'coder',
          '{ tools: { allow: [site.publish, file.read, file.write_workspace] } }',
        ),
      },
      tools: { 'site.publish': TOOL },
    });
  });
  after(() => world.stop());

  let tasks = 0;
  const plan = (args: Record<string, unknown>): string => {
    const goal = `Publish ${tasks++}.`;
    world.model.on(goal, says(call('site.publish', args)), ({ results }) =>
      finishes(results.join('\n')),
    );
    return goal;
  };
  const publish = async (args: Record<string, unknown>): Promise<string> =>
    (await doTask(world, plan(args), { agent: 'coder' })).result ?? '';
  const check = async (text: string) => {
    const files = [{ name: 'x.cedar', text }];
    return (await world.agentd.checkPolicy({ body: { files } })).check;
  };

  it('the check types the arguments of a declared tool', async () => {
    assert.deepEqual(await check(RULES).then(({ problems, warnings }) => [problems, warnings]), [
      [],
      [],
    ]);
    const wrong = await check(RULES.replace('arguments.branch', 'arguments.brunch'));
    assert.match(wrong.problems[0]!.message, /brunch/);
    assert.match(wrong.problems[0]!.hint, /branch/);
    const other = await check(RULES.replaceAll('site.publish', 'site.publsh'));
    assert.ok(other.warnings.some(({ hint }) => hint === 'Did you mean site.publish?'));
    const edits = about('forbid', 'context.arguments.edits == "x"');
    const left = await check(edits.replace('site.publish', 'file.edit'));
    assert.match(left.problems[0]!.message, /rules cannot use the argument edits of file\.edit/);
  });

  it('a simulation decides recorded calls by their arguments', async () => {
    assert.match(await publish({ branch: 'topic' }), /published topic/);
    assert.match(await publish({ branch: 'main', force: true }), /published main/, 'control');
    const files = [{ name: '10-publish.cedar', text: RULES }];
    const { simulation } = await eventually('both calls in the log', async () => {
      const answer = await world.agentd.simulatePolicy({ body: { files } });
      return answer.simulation.changes.length > 0 ? answer : undefined;
    });
    assert.deepEqual(
      simulation.changes.map(({ tool, changed }) => [tool, changed.answer, changed.rules]),
      [['site.publish', 'deny', ['site:10-publish.cedar:1']]],
    );
    assert.equal(simulation.unreadable, 0);
  });

  it('a call is allowed, denied or asked about by its arguments', async () => {
    const file = join(world.stateDir, 'policies', '10-publish.cedar');
    writeFileSync(file, RULES, { mode: 0o600 });
    await eventually('the rule to hold', async () =>
      /nobody forces/.test(await publish({ branch: 'topic', force: true })) ? true : undefined,
    );
    assert.match(await publish({ branch: 'topic' }), /published topic/);
    const denied = (await allEvents(world)).findLast(({ event }) => event === 'tool.call.denied');
    assert.equal(denied?.policy, 'site:10-publish.cedar:1');

    const task = await create(world, plan({ branch: 'main' }), { agent: 'coder' });
    const { id } = await eventually('the approval', async () => {
      const query = { status: 'pending' as const };
      return (await world.approvald.listApprovals({ query })).approvals[0];
    });
    await makeReviewer(world.approvald).approve({ params: { id }, body: {} });
    assert.match((await taskEnded(world, task.id)).result ?? '', /published main/);
  });

  it('arguments that a person edits are decided again', async () => {
    const task = await create(world, plan({ branch: 'main' }), { agent: 'coder' });
    const { id } = await eventually('the approval', async () => {
      const query = { status: 'pending' as const };
      return (await world.approvald.listApprovals({ query })).approvals[0];
    });
    const body = { edited_arguments: { branch: 'main', force: true } };
    await makeReviewer(world.approvald).approve({ params: { id }, body });
    assert.match((await taskEnded(world, task.id)).result ?? '', /nobody forces/);
  });
});
