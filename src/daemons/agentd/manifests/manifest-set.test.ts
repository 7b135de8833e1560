// Which manifests are in load after files break, conflict, are renamed or swapped.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type FiledAgent, mergeManifests, type Reading } from './manifest-set.ts';
import { readManifest } from './read-manifest.ts';

const text = (name: string, more = '{}') =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata:\n  name: ${name}\nspec: ${more}\n`;
const good = (file: string, name: string, more?: string): Reading => ({
  file,
  result: readManifest(text(name, more), file),
});
const broken = (file: string): Reading => ({ file, result: readManifest('nonsense: 1\n', file) });

/** file=name pairs, and the files with problems. */
function merge(readings: Reading[], inForce: FiledAgent[] = []) {
  const set = mergeManifests(readings, inForce);
  const agents = set.agents.map(({ agent, file }) => `${file}=${agent.name}`);
  return { set, agents, troubled: [...new Set(set.problems.map(({ file }) => file))] };
}

const load = (...readings: Reading[]) => mergeManifests(readings, []).agents;

test('good files load beside a broken one, sorted by name', () => {
  const { agents, troubled } = merge([good('a', 'zoe'), broken('b'), good('c', 'adam')]);
  assert.deepEqual(agents, ['c=adam', 'a=zoe']);
  assert.deepEqual(troubled, ['b']);
});

test('a broken file keeps its agent as it was, and its hint says so', () => {
  const { agents, set } = merge([broken('a')], load(good('a', 'coder')));
  assert.deepEqual(agents, ['a=coder']);
  assert.match(set.problems[0]!.hint, /Until then agent coder stays as it was\.$/);
});

test('removing a file removes its agent', () => {
  assert.deepEqual(merge([], load(good('a', 'coder'))).agents, []);
});

test('of two agents with one name the first by file name wins, and the other is a problem', () => {
  const { agents, set } = merge([good('a', 'coder'), good('b', 'coder')]);
  assert.deepEqual(agents, ['a=coder']);
  assert.equal(set.problems.length, 1);
  assert.equal(set.problems[0]!.file, 'b');
  assert.equal(set.problems[0]!.message, 'agent coder is already declared by a');
});

test('of two agents with one name the one in load wins, broken or not', () => {
  const before = load(good('b', 'coder'));
  assert.deepEqual(merge([good('a', 'coder'), good('b', 'coder')], before).agents, ['b=coder']);
  const halfBroken = merge([good('a', 'coder'), broken('b')], before);
  assert.deepEqual(halfBroken.agents, ['b=coder']);
  assert.deepEqual(halfBroken.troubled, ['b', 'a']);
  assert.deepEqual(merge([good('a', 'coder')], before).agents, ['a=coder']);
});

test('two files may swap their agents', () => {
  const before = load(good('a', 'coder'), good('b', 'tester'));
  const swapped = merge([good('a', 'tester'), good('b', 'coder')], before);
  assert.deepEqual(swapped.agents, ['b=coder', 'a=tester']);
  assert.deepEqual(swapped.troubled, []);
});

test('a file that changes to a name in use keeps its previous agent', () => {
  const before = load(good('a', 'coder'), good('b', 'tester'));
  const { agents, troubled } = merge([good('a', 'tester'), good('b', 'tester')], before);
  assert.deepEqual(agents, ['a=coder', 'b=tester']);
  assert.deepEqual(troubled, ['a']);
});

test('two agents never share a Linux user', () => {
  const { agents, set } = merge([good('a', 'coder'), good('b', 'x', '{ linuxUser: agent-coder }')]);
  assert.deepEqual(agents, ['a=coder']);
  assert.match(set.problems[0]!.message, /agent-coder already belongs to agent coder/);
  const before = load(good('b', 'x', '{ linuxUser: agent-coder }'));
  const later = merge([good('a', 'coder'), good('b', 'x', '{ linuxUser: agent-coder }')], before);
  assert.deepEqual(later.agents, ['b=x']);
});

test('an agent that lost its name to a file that is itself refused is accepted', () => {
  const before = load(good('f2', 'c', '{ linuxUser: agent-a }'));
  const { agents, troubled } = merge(
    [good('f0', 'b'), good('f1', 'c'), good('f2', 'c', '{ linuxUser: agent-b }'), good('f3', 'a')],
    before,
  );
  assert.deepEqual(agents, ['f3=a', 'f0=b', 'f1=c']);
  assert.deepEqual(troubled, ['f2']);
});

const reading = fc.oneof(
  fc.constant('broken'),
  fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    user: fc.constantFrom(undefined, 'agent-a', 'agent-b', 'u'),
  }),
);
const directory = fc.array(fc.option(reading, { nil: undefined }), { minLength: 4, maxLength: 4 });

test('any sequence of file changes: names are unique, the set is stable, every refused file is a problem', () => {
  fc.assert(
    fc.property(fc.array(directory, { minLength: 1, maxLength: 5 }), (days) => {
      let inForce: FiledAgent[] = [];
      for (const day of days) {
        const readings = day.flatMap((entry, i) => {
          const file = `f${i}`;
          if (entry === undefined) return [];
          if (entry === 'broken') return [broken(file)];
          return [
            good(
              file,
              entry.name,
              entry.user === undefined ? '{}' : `{ linuxUser: ${entry.user} }`,
            ),
          ];
        });
        const set = mergeManifests(readings, inForce);
        const files = readings.map(({ file }) => file);
        const names = set.agents.map(({ agent }) => agent.name);
        assert.deepEqual(names, [...new Set(names)].sort());
        const users = set.agents.map(({ agent }) => agent.linuxUser);
        assert.equal(new Set(users).size, users.length);
        for (const { file, result } of readings) {
          const loaded = set.agents.find((agent) => agent.file === file);
          const isNew = result.ok && loaded?.agent.hash === result.agent.hash;
          assert.equal(isNew, !set.problems.some((problem) => problem.file === file));
          if (loaded !== undefined && !isNew) {
            assert.ok(
              inForce.some((before) => before.file === file && before.agent === loaded.agent),
            );
          }
        }
        assert.ok(set.agents.every(({ file }) => files.includes(file)));
        const again = mergeManifests(readings, set.agents);
        assert.deepEqual(
          again.agents.map(({ agent, file }) => [agent.hash, file]),
          set.agents.map(({ agent, file }) => [agent.hash, file]),
        );
        inForce = set.agents;
      }
    }),
    { numRuns: 300 },
  );
});
