// Tools, models and artifacts, through the whole program.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { agent, at, id, model, tool } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
const dir = mkdtempSync(join(tmpdir(), 'actl-m-'));
before(async () => {
  fake = await startFake();
});
after(async () => {
  rmSync(dir, { recursive: true });
  await fake.stop();
});
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const last = () => fake.seen.at(-1)!;
const lastAdded = () => fake.seen.findLast(({ route }) => route === 'addProvider')!;

const provider = {
  name: 'anthropic',
  dialect: 'anthropic' as const,
  base_url: 'https://api.anthropic.com',
  has_key: true,
  labels_allowed: ['person' as const],
  in_flight: 0,
  available: false,
  reason: 'the key was refused',
};

test('tool list and show', async () => {
  fake.script({ toold: { listTools: async () => ({ tools: [tool('task.delegate')] }) } });
  assert.match(
    (await run('tool', 'list')).stdout,
    /task\.delegate +medium +reversible +task\.delegate +Give/,
  );
  const shown = await run('tool', 'show', 'task_delegate');
  assert.match(shown.stdout, /effect {6}reversible, safe to repeat/);
  assert.match(shown.stdout, /\ninput:\n {2}type: object\n/);
  assert.equal((await run('tool', 'show', 'nothing')).code, 5);
});

test('tool list and show print which agents a tool is suspended for, or nothing', async () => {
  const since = '2026-06-29T18:00:00.000Z';
  const suspended = { since, by: 'person:alice', reason: 'looks odd' };
  const reason = '5 violations: it ran into its limits';
  const suspended_in = [{ task_id: id('task', 1), since, reason }];
  const tools = [
    { ...tool('a.all'), suspended, suspended_in },
    { ...tool('a.tree'), suspended_in },
    tool('a.free'),
  ];
  fake.script({ toold: { listTools: async () => ({ tools }) } });
  const { stdout } = await run('tool', 'list');
  assert.match(stdout, /^a\.all \(suspended\) /m);
  assert.match(stdout, /^a\.tree \(suspended in a task\) /m);
  assert.match(stdout, /^a\.free +medium/m);
  const json = JSON.parse((await run('tool', 'list', '--json')).stdout) as { tools: object[] };
  assert.deepEqual(json.tools, tools);

  const linesOf = async (name: string) =>
    (await run('tool', 'show', name)).stdout.split('\n').filter((line) => /^suspended/.test(line));
  const [all, inTree, ...more] = await linesOf('a.all');
  assert.match(all!, /^suspended +since .* by person:alice: looks odd/);
  assert.match(inTree!, /^suspended in +task_\w+ and its subtasks since/);
  assert.deepEqual(more, []);
  assert.equal((await linesOf('a.tree')).length, 1);
  assert.deepEqual(await linesOf('a.free'), []);
});

test('model list marks rehearsals and models that do not respond', async () => {
  const models = [
    model('coder-large'),
    model('small', {
      rehearsal: false,
      is_default: true,
      price: { input: 15, output: 75, is_guess: true },
      available: false,
      reason: 'no key',
    }),
  ];
  fake.script({
    modeld: { listModels: async () => ({ models, providers: [provider], aliases: [] }) },
  });
  const { stdout } = await run('model', 'list');
  assert.match(
    stdout,
    /coder-large +chat +rehearsal\/coder-large +200,000 +free +rehearsal, not a real model/,
  );
  assert.match(stdout, /small .* ~15\/75 +unavailable\n/);
  assert.match(
    stdout,
    /small is "default", and the fallback for agents whose model is not offered/,
  );
  assert.match(
    stdout,
    /~ small: no known price, so charged at the rate of the most expensive model/,
  );
  assert.match(
    stdout,
    /anthropic +anthropic +https:\/\/api\.anthropic\.com +yes +person +unavailable\n/,
  );
  // Below the tables in full: on a narrow terminal a column would be truncated.
  assert.match(stdout, /\nanthropic is unavailable: the key was refused\n/);
  assert.match(stdout, /\nsmall is unavailable: no key\n$/);
});

test('model add reads the key from a file or stdin, never from the command line', async () => {
  const listModels = async () => ({ models: [], providers: [], aliases: [] });
  fake.script({ modeld: { addProvider: async () => ({ provider }), listModels } });
  const keyFile = join(dir, 'key');
  writeFileSync(keyFile, 'sk-secret\n');
  const ran = await run('model', 'add', 'anthropic', '--key-file', keyFile, '--model', 'claude-x');
  assert.equal(ran.code, 0, ran.stderr);
  assert.ok(!`${ran.stdout}${ran.stderr}`.includes('sk-secret'));
  assert.deepEqual(lastAdded().body, {
    dialect: 'anthropic',
    base_url: 'https://api.anthropic.com',
    key: 'sk-secret',
    models: ['claude-x'],
  });
  const url = 'http://127.0.0.1:9/v1';
  const own = ['model', 'add', 'local', '--dialect', 'openai', '--base-url', url];
  await agentctl([...own, '--key-file', '-'], { state: fake.stateDir, stdin: ' k2 \n' });
  assert.deepEqual(lastAdded().body, { dialect: 'openai', base_url: url, key: 'k2' });
  await run(...own);
  assert.deepEqual(lastAdded().body, { dialect: 'openai', base_url: url });
  assert.equal((await run('model', 'add', 'local')).code, 2);
  assert.equal((await run('model', 'add', 'local', '--dialect', 'openai')).code, 2);
  assert.equal((await run('model', 'add', 'anthropic', '--key', 'sk')).code, 2);
  const keyless = await run('model', 'add', 'anthropic', '--model', 'claude-x');
  assert.equal(keyless.code, 2);
  assert.match(
    keyless.stderr,
    /requires a key .*\nName a key file: agentctl model add anthropic --key-file/,
  );
});

test('model add prints the price it will charge, and accepts another', async () => {
  const guess = { input: 15, output: 75, is_guess: true };
  const tiny = model('tiny', { routes: [{ provider: 'local', model: 'tiny' }], price: guess });
  const there = { ...provider, name: 'local', dialect: 'openai' as const, available: true };
  const script = (models: (typeof tiny)[]) =>
    fake.script({
      modeld: {
        addProvider: async () => ({ provider: there }),
        listModels: async () => ({ models, providers: [there], aliases: [] }),
      },
    });
  script([tiny]);
  const guessed = await run('model', 'add', 'local', '--model', 'tiny');
  assert.match(guessed.stdout, /tiny has no known price.*\n.*\$15 and \$75/);
  assert.match(guessed.stdout, /agentctl model add local --free/);
  script([{ ...tiny, price: { input: 0, output: 0, is_guess: false } }]);
  const free = await run('model', 'add', 'local', '--free');
  assert.doesNotMatch(free.stdout, /no known price/);
  const price = () => (lastAdded().body as { price: unknown }).price;
  assert.deepEqual(price(), { input: 0, output: 0 });
  await run('model', 'add', 'local', '--price-in', '0.5', '--price-out', '3');
  assert.deepEqual(price(), { input: 0.5, output: 3 });
  assert.equal((await run('model', 'add', 'local', '--price-in', '1')).code, 2);
  assert.equal((await run('model', 'add', 'local', '--free', '--price-in', '1')).code, 2);
  script([]);
  const useless = await run('model', 'add', 'local');
  assert.match(
    useless.stdout,
    /No model is routed to it yet: agentctl model add local --model MODEL/,
  );
});

test('model add changes only what is named of an existing provider', async () => {
  const there = {
    ...provider,
    name: 'local',
    dialect: 'openai',
    base_url: 'http://127.0.0.1:9/v1',
  };
  fake.script({
    modeld: {
      addProvider: async () => ({ provider: there as typeof provider }),
      listModels: async () => ({ models: [], providers: [there as typeof provider], aliases: [] }),
    },
  });
  assert.equal((await run('model', 'add', 'local', '--model', 'small')).code, 0);
  const { dialect, base_url } = there;
  assert.deepEqual(lastAdded().body, { dialect, base_url, models: ['small'] });
  const wrong = await run('model', 'add', 'local', '--base-url', 'localhost');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /--base-url localhost is not an http or https URL/);
});

test('model test exits 1 when the model did not respond', async () => {
  const answer = {
    ok: true,
    provider: 'rehearsal',
    model: 'x',
    latency_ms: 12,
    rehearsal: true,
    message: 'hi',
    routes: [
      {
        provider: 'rehearsal',
        model: 'x',
        kind: 'chat' as const,
        ok: true,
        message: 'hi',
        abilities: [
          { ability: 'chat' as const, result: 'yes' as const, message: 'hi' },
          { ability: 'images' as const, result: 'no' as const, message: 'it cannot see' },
        ],
      },
    ],
  };
  fake.script({ modeld: { testModel: async () => answer } });
  const good = await run('model', 'test', 'coder-large');
  assert.equal(good.code, 0);
  assert.match(
    good.stdout,
    /^ok {2}coder-large by the rehearsal, not a real model \(x\) in 12 ms\nhi\n/,
  );
  assert.match(good.stdout, /CAN +rehearsal\/x\nchat +yes\nimages +no\n\n/);
  assert.match(good.stdout, /rehearsal\/x: images: it cannot see\n$/);
  fake.script({ modeld: { testModel: async () => ({ ...answer, ok: false }) } });
  assert.equal((await run('model', 'test', 'coder-large')).code, 1);
});

test('model budget shows and sets', async () => {
  const budget = {
    subject: 'agent' as const,
    name: 'coder',
    period: 'day' as const,
    tokens_limit: null,
    tokens_spent: 10,
    tokens_reserved: 5,
    cost_limit_microusd: 5_000_000,
    cost_spent_microusd: 1_000_000,
    cost_reserved_microusd: 0,
    renews_at: null,
  };
  fake.script({
    modeld: {
      listBudgets: async () => ({ budgets: [budget] }),
      setBudget: async () => ({ budget }),
    },
    agentd: {
      getAgent: async ({ params }) => {
        if (params.name !== 'coder') throw fault('not_found', 'agent not found');
        return { agent: agent('coder'), manifest: {} };
      },
    },
  });
  assert.match(
    (await run('model', 'budget')).stdout,
    /agent coder +15 +no limit +\$1\.0000 +\$5\.0000 +never/,
  );
  assert.match((await run('model', 'budget', 'site')).stdout, /No budget is set/);
  await run('model', 'budget', 'agent', 'coder', '--cost', '5', '--tokens', 'none');
  assert.deepEqual(last().body, {
    subject: 'agent',
    name: 'coder',
    tokens_limit: null,
    cost_limit_microusd: 5_000_000,
  });
  assert.equal((await run('model', 'budget', 'agent', 'cdoer', '--cost', '5')).code, 5);
  assert.equal(last().route, 'getAgent', 'no limit was set for an unknown agent');
  await run('model', 'budget', 'day', '--cost', '2.5');
  assert.deepEqual(last().body, { subject: 'day', name: '', cost_limit_microusd: 2_500_000 });
  await run('model', 'budget', 'person', 'alice', '--cost', '20', '--per', 'month');
  assert.deepEqual(last().body, {
    subject: 'person',
    name: 'alice',
    cost_limit_microusd: 20_000_000,
    period: 'month',
  });
  for (const args of [
    ['--cost', '5'],
    ['agent', '--cost', '5'],
    ['day', 'x', '--cost', '5'],
    ['day', '--cost', '5', '--per', 'month'],
    ['key', 'ci', '--per', 'month'],
    ['key', 'ci', '--cost', '5', '--per', 'week'],
    ['moon'],
  ])
    assert.equal((await run('model', 'budget', ...args)).code, 2, args.join(' '));
  assert.equal((await run('model', 'budget', 'day', '--cost', 'lots')).code, 2);
});

test('artifacts are listed, printed verbatim, written to a file', async () => {
  const artifact = {
    id: id<never>('artifact', 1),
    ref: `artifact://${id('artifact', 1)}`,
    name: 'report.md',
    mime_type: 'text/markdown',
    size_bytes: 2_048,
    object_hash: '0'.repeat(64),
    created_by: 'agent:coder',
    task_id: null,
    context_id: null,
    labels: [],
    created_at: at(0),
  };
  fake.script({
    agentd: {
      listArtifacts: async () => ({ artifacts: [artifact], cursor: null }),
      getArtifact: async () => ({ artifact, text: 'raw \u001b[31m text', base64: null }),
    },
  });
  assert.match(
    (await run('artifact', 'list')).stdout,
    /report\.md +text\/markdown +2\.0 KiB +agent:coder/,
  );
  assert.equal((await run('artifact', 'get', artifact.ref)).stdout, 'raw \u001b[31m text');
  assert.deepEqual(last().params, { id: artifact.id });
  const file = join(dir, 'out.md');
  assert.equal((await run('artifact', 'get', artifact.id, '-o', file)).code, 0);
  assert.equal(readFileSync(file, 'utf8'), 'raw \u001b[31m text');
  fake.script({ agentd: { getArtifact: async () => ({ artifact, text: null, base64: '//4A' }) } });
  await run('artifact', 'get', artifact.id, '-o', file);
  assert.deepEqual([...readFileSync(file)], [0xff, 0xfe, 0]);
  assert.equal((await run('artifact', 'get', artifact.id, '-o', join(dir, 'no', 'x'))).code, 2);
  assert.equal(existsSync(join(dir, 'no')), false);
});

test('model alias lists, sets and removes names that stand for models', async () => {
  const built = { pattern: 'gpt-*', model: 'default', set_by: 'built-in' as const };
  const own = { pattern: 'claude-*', model: 'big', set_by: 'operator' as const };
  fake.script({
    modeld: {
      listModels: async () => ({ models: [], providers: [], aliases: [built] }),
      setAlias: async () => ({ aliases: [own, built] }),
    },
  });
  assert.match((await run('model', 'alias')).stdout, /gpt-\* +default +built-in\n/);
  const set = await run('model', 'alias', 'claude-*', 'big');
  assert.match(set.stdout, /claude-\* +big +operator\n/);
  assert.deepEqual(last().body, { pattern: 'claude-*', model: 'big' });
  const json = JSON.parse((await run('model', 'alias', 'claude-*', 'big', '--json')).stdout);
  assert.deepEqual(json.aliases, [own, built]);
  await run('model', 'alias', 'claude-*', '--remove');
  assert.deepEqual(last().body, { pattern: 'claude-*', model: null });
  for (const wrong of [['claude-*'], ['claude-*', 'big', '--remove'], ['--remove']])
    assert.equal((await run('model', 'alias', ...wrong)).code, 2, wrong.join(' '));
});

test('model remove finds out whether a provider or a model is meant', async () => {
  const there = { ...provider, name: 'local' };
  const models = [model('qwen', { routes: [{ provider: 'local', model: 'qwen' }] })];
  fake.script({
    modeld: {
      listModels: async () => ({ models, providers: [there], aliases: [] }),
      removeProvider: async ({ query }) => ({
        provider: query.model === undefined ? null : there,
      }),
    },
  });
  const removed = await run('model', 'remove', 'local');
  assert.match(removed.stdout, /^Removed provider local and its key/);
  assert.deepEqual([last().params, last().query], [{ name: 'local' }, {}]);
  for (const name of ['qwen', 'local/qwen']) {
    assert.match((await run('model', 'remove', name)).stdout, /local no longer offers qwen\./);
    assert.deepEqual(last().query, { model: 'qwen' });
  }
  assert.equal((await run('model', 'remove', 'qwne')).code, 5);
});
