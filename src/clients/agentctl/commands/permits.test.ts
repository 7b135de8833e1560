// Permits, through the whole program.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { PermitView } from '../../../wire/approvald.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { at, id } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const sent = (route: string) => fake.seen.find((request) => request.route === route);
const PERMIT = id('permit', 1);

const permit: PermitView = {
  id: PERMIT as never,
  scope: 'repo',
  agent: 'deployer',
  action: 'deploy.run',
  class: 'production.change',
  risk: 'high',
  reversibility: 'reversible',
  root_task_id: null,
  repo: '/srv/repo',
  approval_id: id('approval', 1) as never,
  granted_by: ['person:alice'],
  granted_at: at(0),
  expires_at: at(3_600),
  revoked_at: null,
  revoked_by: null,
  uses: 2,
  active: true,
};

test('permits are listed and revoked', async () => {
  fake.script({
    approvald: {
      listPermits: async () => ({ permits: [permit], cursor: null }),
      revokePermit: async () => ({ permit: { ...permit, active: false } }),
    },
  });
  const { stdout } = await run('permit', 'list');
  assert.match(stdout, /deployer +deploy\.run +repo +\/srv\/repo +high, reversible +person:alice/);
  assert.deepEqual(sent('listPermits')?.query, { limit: 1000, active: 'true' });
  assert.match((await run('permit', 'revoke', PERMIT)).stdout, /used 2 times/);
  assert.deepEqual(sent('revokePermit')?.params, { id: PERMIT });
});
