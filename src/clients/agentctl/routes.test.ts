// The paths agentctl asks are those of the contracts, and open to an operator.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DaemonName } from '../../wire/daemons.ts';
import type { RouteTable } from '../../wire/route.ts';
import { PATHS } from './routes.ts';
import { CONTRACTS } from './testing/fake-runtime.ts';

for (const [daemon, paths] of Object.entries(PATHS)) {
  test(`every path of ${daemon} is the contract's`, () => {
    const contract = CONTRACTS[daemon as DaemonName] as RouteTable;
    for (const [name, path] of Object.entries(paths)) {
      const route = contract[name];
      assert.ok(route !== undefined, `${daemon} has no route ${name}`);
      assert.equal(path, `${route.method} ${route.path}`);
      assert.ok(route.callers.includes('operator'), `${name} is not for operators`);
    }
  });
}
