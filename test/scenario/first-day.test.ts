// A newcomer's first commands: files to start from, a port on a runtime that is up, a restart.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { measureWidth } from '../../src/clients/agentctl/show/width.ts';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const LISTS = [
  ['list'],
  ['task', 'list'],
  ['artifact', 'list'],
  ['approvals'],
  ['questions'],
  ['permit', 'list'],
  ['person', 'list'],
  ['key', 'list'],
  ['tool', 'list'],
  ['model', 'list'],
  ['model', 'alias'],
  ['model', 'usage'],
  ['model', 'budget'],
  ['workspace', 'list'],
  ['policy', 'show', 'planner'],
  ['policy', 'can', 'planner', '--list'],
  ['audit', 'tail'],
  ['audit', 'agent', 'planner'],
  ['logs', 'planner'],
  ['du'],
  ['status'],
  ['task', 'graph'],
];

describe('the first day', () => {
  let runtime: TestRuntime;
  const dir = freshDir();

  before(async () => {
    runtime = await startRuntime({ config: 'runtime: { host_names: [agentd.example] }\n' });
  });
  after(() => runtime.remove());
  const run = (...args: string[]) => agentctl(args, { state: runtime.stateDir });

  it('agent init writes a manifest that loads as it is', async () => {
    const file = join(dir, 'reviewer.yaml');
    const wrote = await run('agent', 'init', 'reviewer', '--out', file);
    assert.equal(wrote.code, 0, wrote.stderr);
    assert.match(wrote.stdout, new RegExp(`agentctl agent create reviewer --file ${file}`));
    const made = await run('agent', 'create', 'reviewer', '--file', file);
    assert.equal(made.code, 0, made.stderr);

    const again = await run('agent', 'init', 'reviewer', '--out', file);
    assert.equal(again.code, 1);
    assert.match(again.stderr, /reviewer\.yaml exists \(conflict\)\n.*--out FILE/);
    assert.match(readFileSync(file, 'utf8'), /name: reviewer/);
  });

  it('tool init writes a declaration that loads as it is', async () => {
    const printed = await run('tool', 'init', 'word.count', '--out', '-');
    mkdirSync(join(runtime.stateDir, 'tools'), { recursive: true });
    writeFileSync(join(runtime.stateDir, 'tools', 'word.count.yaml'), printed.stdout, {
      mode: 0o644,
    });
    await eventually('the tool is loaded', async () => {
      const shown = await run('tool', 'show', 'word.count');
      return shown.code === 0 || undefined;
    });
  });

  it('policy init writes rules that are valid and change nothing', async () => {
    const file = join(dir, 'network.cedar');
    assert.equal((await run('policy', 'init', 'network', '--out', file)).code, 0);
    const checked = await run('policy', 'check', file);
    assert.equal(checked.code, 0, checked.stderr);
    const rules = readFileSync(file, 'utf8').replaceAll(/^\/\/ (?=[fp@ );]|\)$)/gm, '');
    writeFileSync(file, rules);
    const uncommented = await run('policy', 'check', file);
    assert.equal(uncommented.code, 0, uncommented.stderr);
  });

  it('an id is as good as its beginning, where no other begins so', async () => {
    const made = await run('task', 'create', 'Say hello', '--json');
    const { task } = JSON.parse(made.stdout) as { task: { id: string } };
    for (const text of [task.id.slice(0, -8), `${task.id.slice(5, -8)}…`]) {
      const shown = await run('task', 'show', text, '--json');
      assert.equal(shown.code, 0, shown.stderr);
      assert.equal((JSON.parse(shown.stdout) as { task: { id: string } }).task.id, task.id);
    }
    const second = await run('task', 'create', 'Say more', '--json');
    const other = (JSON.parse(second.stdout) as { task: { id: string } }).task.id;
    const common = [...task.id].findIndex((letter, i) => letter !== other[i]);
    const several = await run('task', 'show', task.id.slice(0, common));
    assert.equal(several.code, 2);
    assert.match(several.stderr, new RegExp(`Type more of it: .*${task.id}.*${other}`));
  });

  it('every list fits a terminal of 80 columns, and is whole in a pipe', async () => {
    const goal = `Say a goal that is longer than ${'any line of a terminal '.repeat(5)}`;
    const made = await run('task', 'create', goal, '--json');
    const { task } = JSON.parse(made.stdout) as { task: { id: string } };
    await taskEnded(runtime, task.id);
    const name = 'a-key-with-a-name-of-thirty-two.';
    await run(
      'key',
      'create',
      name,
      '--owner',
      'alexandria-the-great',
      '--models',
      'rehearsal-large',
    );
    await run('person', 'add', 'alexandria-the-great');
    const wide: string[] = [];
    for (const words of LISTS) {
      const printed = (await agentctl(words, { state: runtime.stateDir, onTerminal: true })).stdout
        .replaceAll(/\p{Cc}\[\d*m/gu, '')
        .split(/\r?\n/);
      wide.push(...printed.filter((line) => measureWidth(line) > 80));
    }
    assert.deepEqual(wide, []);
    const piped = await run('task', 'list');
    assert.ok(piped.stdout.includes(task.id) && piped.stdout.includes(goal.trim()), piped.stdout);
  });

  it('reload takes what it can, names what waits, and nothing of a file that is wrong', async () => {
    const file = join(runtime.stateDir, 'agentd.yaml');
    const first = readFileSync(file, 'utf8');
    const write = (more: string) => writeFileSync(file, `${first}${more}\n`);
    const reload = async () => (await run('reload', '--json')).stdout;
    const nothing = '{"reload":{"taken":[],"waiting":[]}}\n';
    assert.equal(await reload(), nothing);
    write('modeld: { aliases: { "gpt-*": default }, budgets: { day: { cost_usd: 7 } } }');
    const taken = await run('reload');
    assert.equal(taken.stdout, 'In force now: modeld.aliases, modeld.budgets\n', taken.stderr);
    assert.match((await run('model', 'alias')).stdout, /gpt-\* +default +config/);
    assert.match((await run('model', 'budget')).stdout, /7\.00/);
    assert.equal(await reload(), nothing);

    write('modeld: { models: { a: { routes: [{ provider: nobody, model: b }] } } }');
    const unknown = await run('reload');
    assert.equal(unknown.code, 78);
    assert.match(unknown.stderr, /modeld\.models\.a refers to unknown provider nobody/);
    write('modeld: { aliasses: {} }');
    assert.match((await run('reload')).stderr, /unknown key modeld\.aliasses/);
    const refused = await run('restart');
    assert.deepEqual([refused.code, /modeld\.aliasses/.test(refused.stderr)], [78, true]);
    assert.match((await run('model', 'budget')).stdout, /7\.00/, 'as before');

    write('toold: { breaker_repeats_max: 7 }\nretention: { logs: { files: 2 } }');
    const waiting = await run('reload');
    assert.match(waiting.stdout, /In force now: modeld\.aliases, modeld\.budgets\n/, 'taken back');
    assert.match(
      waiting.stdout,
      /next start: retention\.logs, toold\.breaker_repeats_max\n.*agentctl restart/,
    );
    writeFileSync(file, first);
    assert.equal(await reload(), nothing);
  });

  it('up opens a port on a runtime that is up, and says if it cannot', async () => {
    const port = await findFreePort();
    const opened = await run('up', '--port', String(port));
    assert.equal(opened.code, 0, opened.stderr);
    assert.match(opened.stdout, new RegExp(`already up[^]*127\\.0\\.0\\.1:${port}`));
    const get = (host: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const headers = { host, authorization: `Bearer ${runtime.operatorKey}` };
        const request = http.get({ port, path: '/v1/status', headers }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        request.on('error', reject);
      });
    assert.equal(await get(`127.0.0.1:${port}`), 200);
    assert.equal(await get('agentd.example'), 200);
    assert.equal(await get('other.example'), 403);

    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const other = (taken.address() as { port: number }).port;
    const refused = await run('up', '--port', String(other));
    taken.close();
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, new RegExp(`port ${other} is in use \\(conflict\\)`));
    assert.equal(await get('agentd.example'), 200, 'the open port stays open');
  });
});
