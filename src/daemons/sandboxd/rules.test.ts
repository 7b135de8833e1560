// Property tests that a plan never allows more than its rules.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isWithin } from '../../policy/paths.ts';
import type { BoxRules } from '../../wire/sandboxd.ts';
import type { Bind } from './adapters/plan.ts';
import {
  boxBinds,
  fitsLayer,
  hostBinds,
  isPlainPath,
  type Places,
  PROTECTED,
  programBinds,
} from './rules.ts';

const places: Places = {
  system: [
    { kind: 'ro', src: '/usr', dst: '/usr' },
    { kind: 'symlink', src: 'usr/bin', dst: '/bin' },
    { kind: 'ro', src: '/etc/ssl', dst: '/etc/ssl' },
  ],
  workspace: '/state/workspaces/t',
  home: '/state/homes/coder',
  homeAt: '/home/coder',
  secrets: ['/state', '/home/bob/.ssh', '/a/b/.ssh'],
};

/** Evaluates a path as the kernel would: the last bind that covers it wins. */
function accessOf(binds: Bind[], path: string): 'none' | 'read' | 'write' {
  if (binds.some(({ kind, dst }) => kind === 'mask' && isWithin(path, dst))) return 'none';
  const cover = binds
    .filter(({ kind, dst }) => (kind === 'ro' || kind === 'rw') && isWithin(path, dst))
    .toSorted((a, b) => a.dst.length - b.dst.length)
    .at(-1);
  if (cover === undefined) return 'none';
  if (cover.kind === 'ro') return 'read';
  return binds.some(({ kind, dst }) => kind.startsWith('protect') && isWithin(path, dst))
    ? 'read'
    : 'write';
}

const word = fc.constantFrom(
  'a',
  'b',
  'c',
  'usr',
  'bin',
  'workspace',
  'home',
  'coder',
  '.git',
  '.ssh',
);
const path = fc
  .array(fc.oneof({ weight: 12, arbitrary: word }, fc.constantFrom('..', '.', '')), {
    minLength: 1,
    maxLength: 4,
  })
  .map((words) => `/${words.join('/')}`);
const rules: fc.Arbitrary<BoxRules> = fc.record({
  read: fc.array(path, { maxLength: 4 }),
  write: fc.array(path, { maxLength: 4 }),
  deny: fc.array(path, { maxLength: 3 }),
});
const plain = path.filter(isPlainPath);
const systemShows = (asked: string) => isWithin(asked, '/usr') || isWithin(asked, '/etc/ssl');

describe('box plans', () => {
  it('allow no path that the rules do not allow', () => {
    fc.assert(
      fc.property(rules, plain, (given, asked) => {
        const { binds } = boxBinds(given, places, () => true);
        const access = accessOf(binds, asked);
        const any = (roots: string[]) => roots.some((root) => isWithin(asked, root));
        if (given.deny.some((root) => isPlainPath(root) && isWithin(asked, root)))
          assert.equal(access, 'none');
        if (places.secrets.some((root) => isWithin(asked, root))) assert.equal(access, 'none');
        if (access === 'write') assert.ok(any(given.write), `${asked} is writable`);
        if (access === 'read')
          assert.ok(any([...given.read, ...given.write]) || systemShows(asked));
      }),
      { numRuns: 3_000 },
    );
  });

  it('adding a denial never allows more', () => {
    fc.assert(
      fc.property(rules, path, plain, (given, more, asked) => {
        const order = ['none', 'read', 'write'];
        const before = accessOf(boxBinds(given, places, () => true).binds, asked);
        const stricter = { ...given, deny: [...given.deny, more] };
        const after = accessOf(boxBinds(stricter, places, () => true).binds, asked);
        assert.ok(order.indexOf(after) <= order.indexOf(before), `${before} → ${after}`);
      }),
      { numRuns: 2_000 },
    );
  });

  it('only sources below declared paths, the workspace, the home or the system are shown', () => {
    fc.assert(
      fc.property(rules, (given) => {
        for (const { kind, src } of boxBinds(given, places, () => true).binds) {
          if (kind !== 'ro' && kind !== 'rw') continue;
          const declared = [...given.read, ...given.write, '/usr', '/etc/ssl'];
          const own = [places.workspace, places.home];
          assert.ok(
            [...declared, ...own].some((root) => isWithin(src!, root)),
            src,
          );
        }
      }),
    );
  });

  it('shows declared paths, with deeper paths on top', () => {
    const given = { read: ['/srv/app', '/workspace'], write: ['/srv/app/out'], deny: [] };
    const { binds, missing } = boxBinds(given, places, () => true);
    assert.equal(accessOf(binds, '/srv/app/x'), 'read');
    assert.equal(accessOf(binds, '/srv/app/out/x'), 'write');
    assert.equal(accessOf(binds, '/workspace/x'), 'read');
    assert.deepEqual(missing, []);
    assert.ok(
      binds.findIndex(({ dst }) => dst === '/srv/app') <
        binds.findIndex(({ dst }) => dst === '/srv/app/out'),
    );
  });

  it('protects what git would run, in every writable workspace', () => {
    const given = { read: [], write: ['/workspace'], deny: [] };
    const { binds } = boxBinds(given, places, () => true);
    for (const file of ['.git/config', '.git/hooks/pre-commit', '.git/info/attributes'])
      assert.equal(accessOf(binds, `/workspace/${file}`), 'read', file);
    assert.equal(accessOf(binds, '/workspace/.git/index'), 'write');
  });

  it('protects it under every name of the workspace', () => {
    const own = { ...places, workspace: '/srv/repo' };
    const given = { read: ['/srv/all'], write: ['/workspace', '/srv/repo', '/srv/x'], deny: [] };
    const { binds } = boxBinds(given, own, () => true);
    for (const top of ['/workspace', '/srv/repo']) {
      assert.equal(accessOf(binds, `${top}/.git/hooks/pre-commit`), 'read', top);
      assert.equal(accessOf(binds, `${top}/src`), 'write', `control: ${top}`);
    }
    const above = { read: [], write: ['/workspace', '/srv'], deny: [] };
    const wide = boxBinds(above, own, () => true).binds;
    assert.equal(accessOf(wide, '/srv/repo/.git/config'), 'read');
    assert.equal(accessOf(wide, '/srv/other/.git/config'), 'write', 'another directory');
    const alone = boxBinds({ read: [], write: ['/srv/repo'], deny: [] }, own, () => true).binds;
    assert.ok(!alone.some(({ kind }) => kind.startsWith('protect')), 'declared by an operator');
  });

  it('level 1 shows paths at their host location, and names what it cannot hide or protect', () => {
    const read = { read: ['/srv/app', '/workspace'], write: [], deny: ['/etc/ssl'] };
    const { binds, needLevel2 } = hostBinds(read, places, () => true);
    assert.deepEqual(needLevel2, []);
    assert.deepEqual(
      binds.map(({ kind, src, dst }) => [kind, src, src === dst]),
      [
        ['ro', '/usr', true],
        ['ro', '/srv/app', true],
        ['ro', '/state/workspaces/t', true],
      ],
    );
    const hidden = { read: ['/srv/app'], write: [], deny: ['/srv/app/key'] };
    assert.deepEqual(hostBinds(hidden, places, () => true).needLevel2, ['/srv/app/key']);
    const written = { read: [], write: ['/workspace'], deny: [] };
    assert.equal(hostBinds(written, places, () => true).needLevel2.length, PROTECTED.length);
  });

  it('hides keys and denied paths under their name in the workspace, too', () => {
    const bobs = { ...places, workspace: '/home/bob', secrets: ['/home/bob/.ssh', '/home/bob/st'] };
    const given = { read: ['/home/bob/docs'], write: ['/workspace'], deny: ['/home/bob/private'] };
    const { binds } = boxBinds(given, bobs, () => true);
    for (const name of ['.ssh/id_ed25519', 'st/operator.key', 'private/x'])
      assert.equal(accessOf(binds, `/workspace/${name}`), 'none', name);
    for (const name of ['notes', '.sshx', 'docs/private'])
      assert.equal(accessOf(binds, `/workspace/${name}`), 'write', `control: ${name}`);
    assert.equal(accessOf(binds, '/home/bob/docs/x'), 'read');
    assert.ok(hostBinds(given, bobs, () => true).needLevel2.includes('/workspace/.ssh'));
  });

  it('show nothing inside key directories, even if a rule names exactly that', () => {
    const inside = ['/home/bob/.ssh/config', '/a/b/.ssh', '/a/b/.ssh/known/hosts', '/state/audit'];
    for (const given of [
      { read: inside, write: [], deny: [] },
      { read: [], write: inside, deny: [] },
    ]) {
      const { binds } = boxBinds(given, places, () => true);
      for (const path of inside)
        for (const asked of [path, `${path}/x`])
          assert.equal(accessOf(binds, asked), 'none', asked);
    }
    const bobs = { ...places, workspace: '/home/bob', secrets: ['/home/bob/.ssh'] };
    const below = ['/workspace/.ssh/config', '/workspace/private/x', '/workspace/notes/x'];
    const mine = { read: [], write: below, deny: ['/home/bob/private'] };
    const theirs = { read: ['/home/bob/st/x', '/home/bob/y'], write: [], deny: ['/workspace/st'] };
    const seen = (rules: BoxRules, asked: string[]) => {
      const { binds } = boxBinds(rules, bobs, () => true);
      return asked.map((path) => accessOf(binds, path));
    };
    assert.deepEqual(seen(mine, below), ['none', 'none', 'write'], 'by the name of the workspace');
    assert.deepEqual(seen(theirs, theirs.read), ['none', 'read'], 'by the name on the host');
    const own = { ...places, secrets: ['/state'] };
    const { binds: among } = boxBinds(
      { read: [], write: ['/workspace/x'], deny: [] },
      own,
      () => true,
    );
    assert.equal(accessOf(among, '/workspace/x'), 'write', 'a workspace of ours lies in our state');
    const beside = { read: ['/home/bob/.sshx', '/a/b'], write: [], deny: [] };
    const { binds } = boxBinds(beside, places, () => true);
    for (const asked of ['/home/bob/.sshx/y', '/a/b/c'])
      assert.equal(accessOf(binds, asked), 'read', `control: ${asked}`);
  });

  it('show no key by any name', () => {
    const secrets = ['/a/b/.ssh', '/a/c'];
    const where = fc.constantFrom('/a', '/a/b', '/b', '/state/workspaces/t');
    fc.assert(
      fc.property(rules, where, plain, (given, workspace, asked) => {
        const { binds } = boxBinds(given, { ...places, workspace, secrets }, () => true);
        if (accessOf(binds, asked) === 'none') return;
        const shown = binds
          .filter(({ kind, dst }) => (kind === 'ro' || kind === 'rw') && isWithin(asked, dst))
          .toSorted((a, b) => a.dst.length - b.dst.length)
          .at(-1)!;
        const source = shown.src + asked.slice(shown.dst.length);
        assert.ok(!secrets.some((root) => isWithin(source, root)), `${asked} is ${source}`);
      }),
      { numRuns: 3_000 },
    );
  });

  it('leaves out paths that do not exist on this host, and says so', () => {
    const given = { read: ['/srv/none'], write: ['/workspace'], deny: [] };
    const { binds, missing } = boxBinds(given, places, (source) => !source.startsWith('/srv'));
    assert.deepEqual(missing, ['/srv/none']);
    assert.ok(!binds.some(({ dst }) => dst === '/srv/none'));
  });
});

describe('a workspace on a layer', () => {
  const layered: Places = { ...places, workspace: '/srv/repo', layer: '7' };
  const rules_ = (write: string[], deny: string[] = [], read: string[] = []): BoxRules => ({
    read,
    write,
    deny,
  });
  const of = (rules: BoxRules, where: Places = layered) => boxBinds(rules, where, () => true).binds;

  it('is the layer, writable or not, and git needs no protection in it', () => {
    const writable = of(rules_(['/workspace']));
    assert.deepEqual(
      writable.filter(({ dst }) => isWithin(dst, '/workspace')),
      [{ kind: 'layer', src: '7', dst: '/workspace', readonly: false }],
    );
    const readable = of(rules_([], [], ['/workspace']));
    assert.ok(readable.some(({ kind, readonly }) => kind === 'layer' && readonly === true));
    const { layer: _, ...plain } = layered;
    assert.ok(of(rules_(['/workspace']), plain).some(({ kind }) => kind === 'protectFile'));
  });

  it('masks what is denied, by its name in the box and by that on the host', () => {
    const masks = (rules: BoxRules, where?: Places) =>
      of(rules, where).flatMap(({ kind, dst }) => (kind === 'mask' ? [dst] : []));
    assert.ok(masks(rules_(['/workspace'], ['/workspace/secret'])).includes('/workspace/secret'));
    const secret = { ...layered, secrets: ['/srv/repo/.ssh'] };
    assert.ok(masks(rules_(['/workspace']), secret).includes('/workspace/.ssh'));
  });

  it('is the only way to the directory below it', () => {
    const above = of(rules_(['/workspace', '/srv']));
    assert.ok(above.some(({ kind, dst }) => kind === 'rw' && dst === '/srv'));
    assert.ok(above.some(({ kind, dst }) => kind === 'mask' && dst === '/srv/repo'));
    for (const path of ['/srv/repo', '/srv/repo/docs']) {
      const { binds, missing } = boxBinds(rules_(['/workspace', path]), layered, () => true);
      assert.ok(!binds.some(({ dst }) => dst === path), path);
      assert.deepEqual(missing, [path]);
    }
  });

  it('is mounted as a whole', () => {
    assert.equal(fitsLayer(rules_(['/workspace', '/home/coder'])), true);
    assert.equal(fitsLayer(rules_(['/workspace/docs'], [], ['/workspace'])), false);
  });
});

describe('the program of a person', () => {
  it('is read-only below a place of its own', () => {
    assert.deepEqual(programBinds(['/home/bob/tool'], { deny: [] }, places.secrets), [
      { kind: 'ro', src: '/home/bob/tool', dst: '/agentd/programs/home/bob/tool' },
    ]);
  });

  it('is nothing that is denied or secret, is in it, or has it inside', () => {
    const tries = [
      '/state/x',
      '/home/bob/.ssh/id',
      '/home/bob',
      '/',
      '/srv/closed',
      '/srv',
      '/a/../b',
    ];
    for (const path of tries)
      assert.throws(
        () => programBinds([path], { deny: ['/srv/closed'] }, places.secrets),
        { code: 'denied' },
        path,
      );
  });
});
