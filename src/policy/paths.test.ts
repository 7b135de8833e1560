// Paths must be canonical, and are compared by whole components.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalPath, isWithin, pathsAbove, resolvePath } from './paths.ts';

test('only canonical paths are accepted, and nothing is repaired', () => {
  for (const path of ['/', '/srv', '/srv/app/a.ts', '/srv/…/ü', '/srv/..a', '/srv/a..', '/.git'])
    assert.deepEqual(canonicalPath(path), { ok: true, path });
  const refused: [string, RegExp][] = [
    ['', /absolute/],
    ['srv/app', /absolute/],
    ['/srv/../etc', /component \.\./],
    ['/srv/..', /component \.\./],
    ['/srv//app', /two slashes/],
    ['//srv', /two slashes/],
    ['/srv/', /ends with a slash/],
    ['/srv/.', /component/],
    ['/./srv', /component/],
    ['/srv/a\0b', /NUL/],
    ['/srv/a\nb', /control/],
    ['/srv/\ud800', /UTF-8/],
    ['/srv/\ufffd', /UTF-8/],
    [`/${'a'.repeat(256)}`, /too long/],
    [`/${'a/'.repeat(2_048)}a`, /longer than/],
  ];
  for (const [path, why] of refused) {
    const found = canonicalPath(path);
    assert.ok(!found.ok, JSON.stringify(path));
    assert.match(found.problem, why);
  }
});

test('relative paths start in the workspace and cannot leave it with ..', () => {
  const at = (written: string) => resolvePath('/workspace', written);
  assert.deepEqual(at('src/a.ts'), { ok: true, path: '/workspace/src/a.ts' });
  assert.deepEqual(at('./src/'), { ok: true, path: '/workspace/src' });
  assert.deepEqual(at('.'), { ok: true, path: '/workspace' });
  assert.deepEqual(at('/srv/app/'), { ok: true, path: '/srv/app' });
  for (const odd of ['../etc/passwd', 'src/../../etc', 'a//b', 'a/./b', '/srv/app//'])
    assert.equal(at(odd).ok, false, odd);
});

test('a path is within a root by whole components only', () => {
  assert.ok(isWithin('/srv/app', '/srv/app'));
  assert.ok(isWithin('/srv/app/x', '/srv/app'));
  assert.ok(!isWithin('/srv/app2', '/srv/app'));
  assert.ok(!isWithin('/srv/App/x', '/srv/app'), 'case counts');
  assert.ok(!isWithin('/srv', '/srv/app'));
  assert.deepEqual(pathsAbove('/srv/app/x'), ['/srv/app', '/srv', '/']);
  assert.deepEqual(pathsAbove('/'), []);
});

test('every path above is canonical and contains the path', () => {
  const name = fc.constantFrom('a', 'b2', '..c', 'ü', 'x y');
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 8 }), (names) => {
      const path = `/${names.join('/')}`;
      for (const above of pathsAbove(path)) {
        assert.ok(canonicalPath(above).ok);
        assert.ok(isWithin(path, above));
        assert.ok(!isWithin(above, path));
      }
      assert.equal(pathsAbove(path).length, names.length);
    }),
  );
});
