// The table of daemons agrees with the routes' callers and paths.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTRACTS } from './contracts.ts';
import { DAEMONS, findCallers, PATH_OWNERS } from './daemons.ts';
import type { RouteTable } from './route.ts';

for (const daemon of DAEMONS) {
  const routes = Object.values(CONTRACTS[daemon] as RouteTable);

  test(`the daemons that may call ${daemon} are those that one of its routes lists`, () => {
    const listed = new Set(routes.flatMap(({ callers }) => callers));
    assert.deepEqual(
      DAEMONS.filter((name) => listed.has(name)),
      findCallers(daemon),
    );
  });

  test(`${daemon} owns the paths of its routes for operators, the longest prefix first`, () => {
    for (const { path, callers } of routes) {
      if (!callers.includes('operator')) continue;
      const owner = PATH_OWNERS.find(({ prefix }) => path.startsWith(prefix));
      assert.equal(owner?.daemon, daemon, path);
    }
  });
}

test('no two daemons own one prefix', () => {
  const prefixes = PATH_OWNERS.map(({ prefix }) => prefix);
  assert.equal(new Set(prefixes).size, prefixes.length);
});
