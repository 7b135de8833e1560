// box run --allow-host: what a person opens for a program, also after it has read from outside.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { startHttp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';

const NAMES = ['first.good.test', 'second.good.test', 'other.good.test'] as const;
const [FIRST, SECOND, OTHER] = NAMES;

describe('hosts of a program in a box', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  let server: WirePosition;
  let taken: string[] = [];
  before(async () => {
    server = await startHttp((request, response) => {
      let body = '';
      request.on('data', (part) => (body += part));
      request.on('end', () => {
        taken.push(`${request.headers.host?.split(':')[0]} ${body}`);
        response.end('text');
      });
    });
    runtime = await startRuntime({
      config: JSON.stringify({
        egressd: {
          hosts: Object.fromEntries(NAMES.map((name) => [name, '127.0.0.1'])),
          allow_private: NAMES.map((name) => `${name}:${server.port}`),
        },
      }),
    });
  });
  after(async () => {
    await runtime?.remove();
    await server?.close();
  });

  const open = (...hosts: string[]) =>
    hosts.flatMap((host) => ['--allow-host', `${host}:${server.port}`]);
  const post = (host: string, body: string) =>
    `curl -s -o /dev/null -w '%{http_code} ' -d ${body} http://${host}:${server.port}/`;
  const run = async (args: string[], script: string) => {
    taken = [];
    const ran = await agentctl(['box', 'run', ...args, '--', 'sh', '-c', script], {
      state: runtime.stateDir,
      env: runtime.env,
    });
    const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
    return { ...ran, task: tasks[0]! };
  };

  it('are none by default', async () => {
    const { stdout } = await run([], `${post(FIRST, 'a')}; env | grep -i proxy`);
    assert.equal(stdout, '000 ');
    assert.deepEqual(taken, []);
  });

  it('stay open for what it sends, in a run that their text has marked', async () => {
    const script = `${post(FIRST, 'a')}; ${post(SECOND, 'b')}; sleep 1; ${post(FIRST, 'c')}; ${post(SECOND, 'd')}; ${post(OTHER, 'e')}`;
    const { stdout, task } = await run(open(FIRST, SECOND), script);
    assert.equal(stdout, '200 200 200 200 403 ');
    assert.deepEqual(taken, [`${FIRST} a`, `${SECOND} b`, `${FIRST} c`, `${SECOND} d`]);
    assert.ok(task.labels.includes('outside'), 'it is marked while it runs');
    assert.deepEqual(task.program?.hosts, [`${FIRST}:${server.port}`, `${SECOND}:${server.port}`]);
    const { events } = await runtime.audit.task({ params: { task_id: task.id }, query: {} });
    const kinds = events.map(({ event }) => event);
    for (const kind of ['network.allowed', 'network.denied'])
      assert.ok(kinds.includes(kind as never), kinds.join(' '));
  });

  it('marks stay with a home: whoever opens it has them', async () => {
    const write = `echo kept > ~/file; ${post(FIRST, 'a')}; sleep 1`;
    await run([...open(FIRST), '--name', 'first'], write);
    const next = await run(['--name', 'first'], 'cat ~/file');
    assert.equal(next.stdout, 'kept\n');
    assert.ok(next.task.labels.includes('outside'));
    const other = await run(['--name', 'other'], 'ls ~');
    assert.deepEqual([other.stdout, other.task.labels], ['', ['person']], 'the control');
  });

  it('a name that is none is refused before anything starts', async () => {
    const { code, stderr } = await run(['--allow-host', 'https://x.test/'], 'true');
    assert.notEqual(code, 0);
    assert.match(stderr, /allow_hosts: https:/);
  });
});
