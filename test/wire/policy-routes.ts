// The rows of agentd's policy routes: for each, a request that succeeds and ones it must refuse.
import assert from 'node:assert/strict';
import { rows, withBody } from './row.ts';

const noDocs = {
  name: '10-docs.cedar',
  text: 'forbid (principal, action == Action::"file.read", resource in Path::"/srv/docs");',
};
const broken = { ...noDocs, text: 'forbid (principal, action == Action::"file.reed", resource);' };

export const policyRows = rows({
  getPolicy: {
    good: async () => ({}),
    check: (response: { policy: { version: number; agents: number } }) => {
      assert.ok(response.policy.version > 0);
      assert.ok(response.policy.agents > 0);
    },
  },
  checkPolicy: {
    good: async () => ({ body: { files: [noDocs, broken] } }),
    check: (response: { check: { problems: { line: number; hint: string }[] } }) => {
      assert.equal(response.check.problems.length, 1);
      assert.match(response.check.problems[0]!.hint, /did you mean/i);
    },
    bad: [
      [
        'a path instead of a name',
        (g) => withBody(g, { files: [{ ...noDocs, name: 'a/b' }] }),
        'bad_request',
      ],
    ],
  },
  showPolicy: {
    good: async () => ({ params: { name: 'worker' } }),
    check: (response: { rules: { id: string }[] }) =>
      assert.ok(response.rules.some(({ id }) => id === 'base:etc')),
  },
  simulatePolicy: {
    good: async () => ({ body: { files: [noDocs], since: '2026-01-01T00:00:00Z' } }),
    check: (response: { simulation: { changes: unknown[] } }) =>
      assert.ok(Array.isArray(response.simulation.changes)),
    bad: [['rules that mean nothing', (g) => withBody(g, { files: [broken] }), 'bad_request']],
  },
});
