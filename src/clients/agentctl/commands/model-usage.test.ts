// agentctl model usage, through the whole program.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { at, usage } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const last = () => fake.seen.at(-1)!;

test('model usage counts from midnight, or from --since', async () => {
  fake.script({ modeld: { usage: async () => usage(12_300, { cache_read_tokens: 40 }) } });
  const { stdout } = await run('model', 'usage', '--agent', 'planner');
  assert.match(
    stdout,
    /planner +planner-large +rehearsal +3 +1,200 +40 +300 +\$0\.0123\n\n3 calls, \$0\.0123 today/,
  );
  const query = last().query as { agent: string; since: string };
  assert.equal(query.agent, 'planner');
  assert.match(query.since, /T00:00:00\.000Z$/);
  await run('model', 'usage', '--since', '2026-06-01');
  assert.deepEqual(last().query, { since: '2026-06-01T00:00:00.000Z' });
});

test('model usage sums by key, agent, person, model or task', async () => {
  const answer = usage(12_300);
  const { rows, total } = answer;
  const { agent: _agent, model: _model, provider: _provider, ...amounts } = rows[0]!;
  const groups = [
    { ...amounts, name: `ci-${'x'.repeat(60)}`, is_unknown: false },
    { ...amounts, name: null, is_unknown: false },
    { ...amounts, name: null, is_unknown: true },
  ];
  const groups_after = at(5);
  fake.script({ modeld: { usage: async () => ({ rows, total, groups, groups_after }) } });
  const { stdout } = await run('model', 'usage', '--by', 'key');
  assert.equal((last().query as { by: string }).by, 'key');
  assert.match(stdout, /^KEY +CALLS +IN +CACHED +OUT +COST\nci-x+ +3 +1,200 +0 +300 +\$0\.0123\n/);
  assert.match(stdout, /^– +3 .*\n\(unknown\) +3 /m);
  assert.match(stdout, /only the newest calls are counted: after \d{4}-/);
  assert.match(stdout, /^\(unknown\): before an upgrade/m);
  const json = JSON.parse((await run('model', 'usage', '--by', 'task', '--json')).stdout) as {
    groups: unknown;
  };
  assert.deepEqual(json.groups, groups);
  assert.equal((await run('model', 'usage', '--by', 'moon')).code, 2);
});
