// The paths that agentctl calls are the contracts' paths, and open to an operator.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commonRoutes } from '../../platform/common-routes.ts';
import { CONTRACTS } from '../../wire/contracts.ts';
import { DAEMONS } from '../../wire/daemons.ts';
import type { RouteTable } from '../../wire/route.ts';
import { listPaths } from './routes.ts';

for (const daemon of DAEMONS) {
  test(`every path of ${daemon} is the contract's`, () => {
    const contract: RouteTable = { ...CONTRACTS[daemon], ...commonRoutes };
    for (const [name, path] of Object.entries(listPaths(daemon))) {
      const route = contract[name];
      assert.ok(route !== undefined, `${daemon} has no route ${name}`);
      assert.equal(path, `${route.method} ${route.path}`);
      assert.ok(route.callers.includes('operator'), `${name} is not for operators`);
    }
  });
}
