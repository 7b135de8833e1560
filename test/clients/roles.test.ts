// People with roles, made with agentctl, against a real runtime: over its port and with agentctl,
// in one process and in several.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { readPersonKey } from '../../src/clients/agentctl/state.ts';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';

for (const mode of ['embedded', 'split'] as const)
  describe(`roles of people, ${mode}`, () => {
    let runtime: TestRuntime;
    before(async () => {
      runtime = await startRuntime({ port: 0, mode });
      for (const role of ['reader', 'approver', 'operator']) {
        const ran = await ctl('person', 'add', role, '--role', role);
        assert.equal(ran.code, 0, ran.stderr);
      }
    });
    after(() => runtime.remove());

    const ctl = (...argv: string[]) =>
      agentctl(argv, { state: runtime.stateDir, env: runtime.env });
    const send = async (name: string, method: string, path: string, body?: object) => {
      const reply = await fetch(`http://127.0.0.1:${runtime.info.port}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${readPersonKey(runtime.stateDir, name)}`,
          'content-type': 'application/json',
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: reply.status, text: await reply.text() };
    };

    it('each may do what its role says, on every daemon', async () => {
      for (const name of ['reader', 'approver', 'operator'])
        for (const path of ['/v1/tasks', '/v1/models', '/v1/tools', '/v1/audit/events'])
          assert.equal((await send(name, 'GET', path)).status, 200, `${name} ${path}`);
      const task = { goal: 'nothing', agent: 'planner' };
      const budget = { subject: 'site', cost_limit_microusd: 9_000_000 };
      for (const name of ['reader', 'approver']) {
        const refused = await send(name, 'POST', '/v1/tasks', task);
        assert.equal(refused.status, 403);
        assert.match(refused.text, /needs the role operator/);
        assert.equal((await send(name, 'PUT', '/v1/models/budgets', budget)).status, 403);
        assert.equal((await send(name, 'POST', '/v1/halt', { reason: 'x' })).status, 403);
      }
      assert.equal((await send('operator', 'POST', '/v1/tasks', task)).status, 200, 'control');
      assert.equal((await send('operator', 'PUT', '/v1/models/budgets', budget)).status, 200);
      const approval = '/v1/approvals/approval_00000000000000000000000000/reject';
      const decision = { nonce: 'x' };
      assert.equal((await send('reader', 'POST', approval, decision)).status, 403);
      for (const name of ['approver', 'operator'])
        assert.notEqual((await send(name, 'POST', approval, decision)).status, 403, name);
      const chat = { model: 'default', messages: [{ role: 'user', content: 'hi' }] };
      const path = '/openai/v1/chat/completions';
      const unpaid = await send('reader', 'POST', path, chat);
      assert.equal(unpaid.status, 403);
      assert.equal(
        typeof JSON.parse(unpaid.text).error.type,
        'string',
        'in the form of the vendor',
      );
      assert.equal((await send('operator', 'POST', path, chat)).status, 200);
    });

    it('agentctl acts in the role of --as, and lists roles', async () => {
      assert.equal((await ctl('task', 'list', '--as', 'reader')).code, 0);
      const refused = await ctl('task', 'create', 'nothing', '--as', 'reader');
      assert.equal(refused.code, 3, refused.stderr);
      assert.match(
        refused.stderr,
        /person:reader has the role reader.*\n.*needs the role operator/,
      );
      const listed = await ctl('person', 'list');
      assert.match(listed.stdout, /approver +approver +.*people\/approver\.key/);
      assert.equal((await ctl('person', 'add', 'x', '--role', 'admin')).code, 2);
    });
  });
