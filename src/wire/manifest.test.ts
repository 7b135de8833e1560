// The manifest's schema: every field accepts valid values and rejects others; unknown keys are
// rejected.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Manifest } from './manifest.ts';

type Json = Record<string, unknown>;

const bare = (): Json => ({
  apiVersion: 'agentd/v1',
  kind: 'Agent',
  metadata: { name: 'coder' },
  spec: {},
});

/** Returns a minimal manifest with one value set, by its path. */
function withValue(path: string, value: unknown): Json {
  const root = bare();
  const steps = path.split('.');
  const last = steps.pop()!;
  let at = root;
  for (const step of steps) {
    at[step] = { ...(at[step] as Json | undefined) };
    at = at[step] as Json;
  }
  at[last] = value;
  return root;
}

/** Returns the paths of all schema errors. */
function schemaErrors(value: unknown): string[] {
  const parsed = Manifest.safeParse(value);
  return parsed.success ? [] : parsed.error.issues.map(({ path }) => path.join('.'));
}

test('a manifest needs its version, its kind, a name and a spec, and nothing more', () => {
  assert.deepEqual(schemaErrors(bare()), []);
  for (const key of ['apiVersion', 'kind', 'metadata', 'spec']) {
    const { [key]: _, ...rest } = bare();
    assert.deepEqual(schemaErrors(rest), [key]);
  }
  assert.deepEqual(schemaErrors(withValue('apiVersion', 'agentd/v2')), ['apiVersion']);
  assert.deepEqual(schemaErrors(withValue('kind', 'Pod')), ['kind']);
  assert.deepEqual(schemaErrors(withValue('metadata', {})), ['metadata.name']);
});

const FIELDS: { path: string; good: unknown[]; bad: unknown[] }[] = [
  {
    path: 'metadata.name',
    good: ['a', 'ops-agent', `a${'b'.repeat(30)}`],
    bad: ['', 'Coder', '1a', 'a_b', 'a b', '../a', `a${'b'.repeat(31)}`, 7, null],
  },
  { path: 'metadata.description', good: ['', 'Codes.'], bad: ['x'.repeat(501), 7] },
  { path: 'metadata.labels', good: [{}, { team: 'a' }], bad: [{ team: 7 }, ['a'], 'a'] },
  {
    path: 'spec.linuxUser',
    good: ['agent-coder', '_a'],
    bad: ['', 'Agent', 'a:b', '-a', 'a'.repeat(33), 7],
  },
  { path: 'spec.model', good: ['default', 'vendor/x:1'], bad: ['', 'x'.repeat(129), 7] },
  { path: 'spec.replicas', good: [1, 100], bad: [0, -1, 1.5, 101, '2', null] },
  {
    path: 'spec.personas',
    good: [[], ['coder', 'groups/night', 'scopes/payments']],
    bad: ['coder', ['Coder'], ['../coder'], ['base/coder'], Array(17).fill('coder')],
  },
  { path: 'spec.home', good: ['kept', 'task'], bad: ['shared', true] },
  { path: 'spec.skills', good: [[], ['pdf-forms']], bad: ['pdf-forms', ['../x'], ['']] },
  { path: 'spec.persona', good: ['', 'You are…'], bad: ['x'.repeat(64_001), ['a']] },
  { path: 'spec.memory.scope', good: ['project'], bad: ['', 'Project', 'a b'] },
  { path: 'spec.memory.read', good: [[], ['project:app']], bad: ['project', ['a b'], [7]] },
  { path: 'spec.memory.briefing', good: [true, false], bad: ['yes', 1] },
  { path: 'spec.memory.episodes', good: [true, false], bad: ['yes', 1] },
  { path: 'spec.memory.write', good: [['project:app/coder']], bad: [['project:']] },
  {
    path: 'spec.tools.allow',
    good: [[], ['git.read', 'file.write_workspace']],
    bad: ['git.read', ['git'], ['Git.read'], ['git.'], ['git read'], Array(257).fill('git.read')],
  },
  { path: 'spec.tools.deny', good: [['secrets.read']], bad: [['*'], [null]] },
  { path: 'spec.groups', good: [['agent-run-tests', 'ours']], bad: ['ours', ['Ours'], ['a b']] },
  { path: 'spec.filesystem.read', good: [['/srv/docs', '/']], bad: [['srv'], ['/a\0b'], ['~']] },
  { path: 'spec.filesystem.write', good: [['/srv/workspaces/app']], bad: [['./a']] },
  { path: 'spec.filesystem.deny', good: [['/etc']], bad: ['/etc'] },
  { path: 'spec.network.mode', good: ['none', 'restricted'], bad: ['open', true] },
  {
    path: 'spec.network.allow',
    good: [['github.com', '*.example.org', 'internal-registry.local:443']],
    bad: [['*'], ['https://github.com'], ['a b'], ['a.*.com'], ['-a.com'], ['a.com/x']],
  },
  {
    path: 'spec.network.change',
    good: [{}, { 'github.com': ['POST'], '*.example.org': ['PUT', 'PATCH', 'DELETE'] }],
    bad: [['github.com'], { 'github.com': ['GET'] }, { 'github.com': 'POST' }, { '*': ['POST'] }],
  },
  { path: 'spec.resources.cpu', good: [0.5, 2], bad: [0, -1, 1025, '2', Number.NaN] },
  { path: 'spec.resources.disk', good: ['4G', '512M', 4_194_304], bad: ['4 G', '4g', '0', 0, 1.5] },
  {
    path: 'spec.resources.memory',
    good: ['4G', '512M', 4_194_304],
    bad: ['4 G', '4g', '0', 0, 1.5],
  },
  { path: 'spec.resources.pids', good: [1, 256], bad: [0, 1.5, '256'] },
  { path: 'spec.approvals.required', good: [['production.change']], bad: [['production'], 'a.b'] },
  { path: 'spec.limits.maxSteps', good: [1, 10_000], bad: [0, 10_001, 1.5] },
  { path: 'spec.limits.maxTokens', good: [1], bad: [0, '1k'] },
  { path: 'spec.limits.maxCostUsd', good: [0, 0.5], bad: [-1, '$1'] },
  { path: 'spec.limits.maxTimeS', good: [1], bad: [0, '1h'] },
  { path: 'spec.budget.tokensPerDay', good: [0, 1], bad: [-1, 1.5] },
  { path: 'spec.budget.costUsdPerDay', good: [0, 2.5], bad: [-0.1, '2'] },
  { path: 'spec.team.delegateTo', good: [[], ['coder']], bad: ['coder', ['Coder']] },
  { path: 'spec.team.talkTo', good: [['coder']], bad: [['agent:coder']] },
];

for (const { path, good, bad } of FIELDS) {
  test(`${path} accepts valid values and rejects others`, () => {
    for (const value of good) {
      assert.deepEqual(schemaErrors(withValue(path, value)), [], JSON.stringify(value));
    }
    for (const value of bad) {
      const found = schemaErrors(withValue(path, value));
      const shown = JSON.stringify(value)?.slice(0, 60);
      assert.ok(found.length > 0, `${shown} is accepted`);
      assert.ok(
        found.every((at) => at.startsWith(path)),
        `${shown}: ${found.join(' ')}`,
      );
    }
  });
}

test('every field of the schema is in the table above', () => {
  type Def = { def: { innerType?: Def; shape?: Record<string, Def> } };
  const leaves = (schema: Def, path: string): string[] => {
    const inner = schema.def.innerType ?? schema;
    if (inner.def.shape === undefined) return [path];
    return Object.entries(inner.def.shape).flatMap(([key, child]) =>
      leaves(child, path === '' ? key : `${path}.${key}`),
    );
  };
  const found = leaves(Manifest as unknown as Def, '');
  const listed = ['apiVersion', 'kind', ...FIELDS.map(({ path }) => path)];
  assert.deepEqual(found.sort(), listed.sort());
});

test('an unknown key is rejected at every level', () => {
  const levels = [
    '',
    'metadata.',
    'spec.',
    ...['memory', 'tools', 'filesystem', 'network', 'resources', 'approvals', 'limits', 'budget']
      .concat('team')
      .map((section) => `spec.${section}.`),
  ];
  for (const level of levels) {
    const [issue] = Manifest.safeParse(withValue(`${level}surprise`, 1)).error?.issues ?? [];
    assert.equal(issue?.code, 'unrecognized_keys', level);
    assert.equal(issue?.path.join('.'), level.replace(/\.$/, ''));
  }
});
