// The routes of agentd about policy: for each, what makes it succeed and what it must refuse.
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
    check: (answer: { policy: { version: number; agents: number } }) => {
      assert.ok(answer.policy.version > 0);
      assert.ok(answer.policy.agents > 0);
    },
  },
  checkPolicy: {
    good: async () => ({ body: { files: [noDocs, broken] } }),
    check: (answer: { check: { problems: { line: number; hint: string }[] } }) => {
      assert.equal(answer.check.problems.length, 1);
      assert.match(answer.check.problems[0]!.hint, /did you mean/i);
    },
    bad: [
      [
        'a path for a name',
        (g) => withBody(g, { files: [{ ...noDocs, name: 'a/b' }] }),
        'bad_request',
      ],
    ],
  },
  showPolicy: {
    good: async () => ({ params: { name: 'worker' } }),
    check: (answer: { rules: { id: string }[] }) =>
      assert.ok(answer.rules.some(({ id }) => id === 'base:etc')),
  },
  simulatePolicy: {
    good: async () => ({ body: { files: [noDocs], since: '2026-01-01T00:00:00Z' } }),
    check: (answer: { simulation: { changes: unknown[] } }) =>
      assert.ok(Array.isArray(answer.simulation.changes)),
    bad: [['rules that mean nothing', (g) => withBody(g, { files: [broken] }), 'bad_request']],
  },
});
