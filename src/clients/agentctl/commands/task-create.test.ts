// Creating tasks through the whole program: options reach the runtime, invalid ones do not.
import assert from 'node:assert/strict';
import { linkSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { at, id } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';
import { teamScript } from '../testing/team-script.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const sent = (route: string) => fake.seen.findLast((request) => request.route === route);

test('create sends every option as the API names it', async () => {
  fake.script(teamScript());
  const assignment = ['--agent', 'coder', '--after', id('task', 8), '--after', id('task', 9)];
  const limits = [
    '--max-steps',
    '5',
    '--max-tokens',
    '100',
    '--max-cost',
    '0.5',
    '--max-time',
    '2m',
  ];
  const rest = ['--priority', '-2', '--deadline', '2099-07-01', '--input', 'a hint'];
  const ran = await run('task', 'create', 'Do it', ...assignment, ...limits, ...rest);
  assert.equal(ran.code, 0, ran.stderr);
  assert.deepEqual(sent('createTask')?.body, {
    goal: 'Do it',
    agent: 'coder',
    after: [id('task', 8), id('task', 9)],
    priority: -2,
    deadline: '2099-07-01T00:00:00.000Z',
    limits: { max_steps: 5, max_tokens: 100, max_cost_microusd: 500_000, max_time_s: 120 },
    inputs: [{ kind: 'text', text: 'a hint' }],
  });
  assert.match(sent('createTask')?.idempotencyKey ?? '', /^[0-9a-f-]{36}$/);
  assert.match(
    ran.stdout,
    /^task_0*1 for planner: completed\nFollow it: agentctl task watch task_0*1\n$/,
  );
  assert.equal((await run('task', 'create', ' ')).code, 2);
  const wrong = await run('task', 'create', 'x', '--agent', 'Not A Name');
  assert.deepEqual([wrong.code, /must be a lowercase name/.test(wrong.stderr)], [2, true]);
});

test('create rejects an invalid workspace, time, input or priority', async () => {
  fake.script(teamScript());
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'actl-place-')));
  writeFileSync(join(dir, 'file'), '');
  symlinkSync(dir, join(dir, 'link'));
  const before = fake.seen.length;
  for (const [option, value, message] of [
    ['--workspace', join(dir, 'none'), /none not found/],
    ['--workspace', join(dir, 'file'), /file is not a directory/],
    ['--deadline', '2020-01-01', /--deadline 2020-01-01 is past/],
    ['--input', 'artifact_1', /'artifact_1' is not an artifact id/],
    ['--input', 'artifact://x', /'artifact:\/\/x' is not an artifact/],
    ['--priority', '1000', /--priority 1000 is not a whole number from -100 to 100/],
  ] as const) {
    const ran = await run('task', 'create', 'x', option, value);
    assert.equal(ran.code, 2);
    assert.match(ran.stderr, message);
  }
  assert.equal(fake.seen.length, before, 'no request reached the runtime');
  const [, shown] = /Use a future time: (\S+),/.exec(
    (await run('task', 'create', 'x', '--deadline', '2020-01-01')).stderr,
  )!;
  assert.ok(Date.parse(shown!) > Date.now(), 'the example would be accepted');
  assert.equal((await run('task', 'create', 'x', '--workspace', join(dir, 'link'))).code, 0);
  assert.deepEqual(sent('createTask')?.body, { goal: 'x', workspace: dir });
  rmSync(dir, { recursive: true });
});

test('create asks for a grant only where the runtime needs one, and takes it back if that was in vain', async () => {
  const script = teamScript();
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'actl-here-')));
  const refused = fault('denied', 'agents may not work there', {
    details: { workspace: 'not_granted', path: '/etc' },
  });
  const listGrants = async () => {
    const ran = await run('workspace', 'list', '--json');
    return documentOf<{ grants: { path: string }[] }>(ran).grants.map(({ path }) => path);
  };
  const here = (...more: string[]) =>
    agentctl(['task', 'create', 'x', '--here', ...more], { state: fake.stateDir, cwd: dir });
  fake.script(script);
  assert.equal((await here()).code, 0);
  assert.deepEqual(sent('createTask')?.body, { goal: 'x', workspace: dir });
  assert.deepEqual(await listGrants(), [], 'a root of the site covers it');
  assert.match((await here('--workspace', dir)).stderr, /--here and --workspace name two/);
  assert.match((await run('task', 'create', 'x', '--live')).stderr, /--live without a directory/);
  writeFileSync(join(dir, 'a'), '');
  linkSync(join(dir, 'a'), join(dir, 'b'));
  let tries = 0;
  const { agentd } = script;
  const refuseFirst = (andThen: () => Promise<never> | undefined) =>
    fake.script({
      ...script,
      agentd: {
        ...agentd,
        createTask: async (context) => {
          if (tries++ % 2 === 0) throw refused;
          return (await andThen()) ?? agentd!.createTask!(context);
        },
      },
    });
  refuseFirst(() => Promise.reject(fault('limit', 'too many tasks')));
  assert.equal((await here()).code, 7);
  assert.deepEqual(await listGrants(), []);
  refuseFirst(() => undefined);
  const ran = await here();
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stdout + ran.stderr, /end that with: agentctl workspace revoke \/\S+/);
  assert.deepEqual(await listGrants(), [dir], 'the directory named by the person, not another');
  assert.equal((await run('workspace', 'revoke', dir)).code, 0);
  const live = await here('--live');
  assert.deepEqual(sent('createTask')?.body, { goal: 'x', workspace: dir, workspace_mode: 'live' });
  assert.match(live.stdout + live.stderr, /Warning: 2 files have other hard links in /);
  assert.deepEqual(await listGrants(), [dir]);
  tries = 0;
  refuseFirst(() => Promise.reject(fault('limit', 'too many tasks')));
  assert.equal((await here()).code, 7);
  assert.deepEqual(await listGrants(), [dir], 'it was there before');
  rmSync(dir, { recursive: true });
});

test('create reads a goal from stdin and stores files as artifacts', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'actl-in-'));
  writeFileSync(join(dir, 'notes.txt'), 'wörds');
  writeFileSync(join(dir, 'image.bin'), Buffer.from([0xff, 0xfe, 0]));
  const script = teamScript();
  fake.script({
    ...script,
    agentd: {
      ...script.agentd,
      putArtifact: async ({ body }) => ({
        artifact: {
          id: id('artifact', 1),
          ref: `artifact://${id('artifact', 1)}`,
          name: body.name,
          mime_type: 'text/plain',
          size_bytes: 1,
          object_hash: '0'.repeat(64),
          created_by: 'person:ada',
          task_id: null,
          context_id: null,
          labels: [],
          created_at: at(0),
        },
      }),
    },
  });
  const inputs = ['--input', `@${join(dir, 'notes.txt')}`, '--input', `@${join(dir, 'image.bin')}`];
  const ran = await agentctl(['task', 'create', '-', ...inputs], {
    state: fake.stateDir,
    stdin: 'a long goal\n',
  });
  rmSync(dir, { recursive: true });
  assert.equal(ran.code, 0, ran.stderr);
  const stored = fake.seen.filter(({ route }) => route === 'putArtifact').map(({ body }) => body);
  assert.deepEqual(stored, [
    { name: 'notes.txt', text: 'wörds' },
    { name: 'image.bin', base64: '//4A' },
  ]);
  const ref = { kind: 'artifact_ref', id: id('artifact', 1) };
  assert.deepEqual(sent('createTask')?.body, { goal: 'a long goal', inputs: [ref, ref] });
});
