// The models inside a person's box: the vendors' routes and nothing else, in the name of its run
// and on its budget, without anything in the box that is worth stealing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { MODEL_URL } from '../../src/policy/box-models.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';

const MESSAGE = JSON.stringify({
  model: 'claude-of-tomorrow',
  max_tokens: 64,
  messages: [{ role: 'user', content: 'hello' }],
});
const CHAT = JSON.stringify({
  model: 'gpt-of-tomorrow',
  messages: [{ role: 'user', content: 'hello' }],
});
/** Prints the body, and the status on a line of its own. */
const CURL = `curl -s -w '\\n%{http_code}\\n' -H 'content-type: application/json'`;
const askMessage = `${CURL} $ANTHROPIC_BASE_URL/v1/messages -d '${MESSAGE}'`;
const askChat = `${CURL} $OPENAI_BASE_URL/chat/completions -d '${CHAT}'`;

describe('models in a box', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime();
  });
  after(() => runtime.remove());

  const run = async (script: string, args: string[] = []) => {
    const ran = await agentctl(['box', 'run', ...args, '--', 'sh', '-c', script], {
      state: runtime.stateDir,
      env: runtime.env,
    });
    const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
    return { ...ran, lines: ran.stdout.trim().split('\n'), task: tasks[0]! };
  };
  const callsOf = async ({ id }: TaskView) =>
    (await runtime.modeld.listCalls({ query: { task_id: id } })).calls;

  it('both vendors answer without a key, and the calls are those of the run', async () => {
    const { lines, task } = await run(`${askMessage}; ${askChat}`);
    assert.deepEqual([lines[1], lines[3]], ['200', '200'], lines.join('\n'));
    assert.equal(JSON.parse(lines[0]!).type, 'message');
    assert.equal(JSON.parse(lines[2]!).object, 'chat.completion');
    const calls = await callsOf(task);
    assert.deepEqual(
      calls.map(({ agent, model }) => [agent, model]),
      [
        ['box', 'default'],
        ['box', 'default'],
      ],
      'a name that its agent may not use stands for the one that it may',
    );
    assert.deepEqual(task.labels, ['person'], 'asking a model marks nothing');
    const usage = await runtime.modeld.usage({ query: { task_id: task.id } });
    assert.equal(usage.total.calls, 2);
    const { events } = await runtime.audit.task({ params: { task_id: task.id }, query: {} });
    assert.ok(events.some(({ event }) => event === 'model.call.ended'));
  });

  it('--model answers for every name, unless a rule forbids it', async () => {
    const args = ['--model', 'rehearsal-small'];
    const { task } = await run(`${askMessage}; ${askChat}`, args);
    assert.deepEqual(
      (await callsOf(task)).map(({ model }) => model),
      ['rehearsal-small', 'rehearsal-small'],
    );
    assert.deepEqual(task.program?.model, 'rehearsal-small');
  });

  it('what does not fit its budget is refused in the form of the vendor', async () => {
    await runtime.modeld.setBudget({
      body: { subject: 'agent', name: 'box', tokens_limit: 1 },
    });
    const { lines } = await run(`${askMessage}; ${askChat}`);
    await runtime.modeld.setBudget({
      body: { subject: 'agent', name: 'box', tokens_limit: null },
    });
    const [message, status, chat, chatStatus] = lines;
    assert.notEqual(status, '200');
    assert.notEqual(chatStatus, '200');
    assert.equal(JSON.parse(message!).type, 'error', message);
    assert.match(JSON.parse(chat!).error.message, /budget/, chat);
  });

  it('no other route answers there, nor any other port, nor another run', async () => {
    const paths = [
      '/v1/models',
      '/v1/models/budgets',
      '/v1/models/calls',
      '/v1/models/generate',
      '/v1/models/keys',
      '/v1/models/providers/x',
      '/v1/runs/run_1',
      '/healthz',
      '/metrics',
      '/v1/snapshots',
      '/v1/tools',
      '/v1/tasks',
    ];
    const methods = ['GET', 'POST', 'PUT', 'DELETE'];
    const tries = paths.flatMap((path) =>
      methods.map(
        (method) => `curl -s -o /dev/null -w '%{http_code} ' -X ${method} ${MODEL_URL}${path}`,
      ),
    );
    const ports =
      'for p in 3127 3128 3130 3131 8080; do curl -s http://127.0.0.1:$p/ && echo open $p; done';
    const found = 'find / -xdev -type s 2>/dev/null; cat /proc/net/unix 2>/dev/null | tail -n +2';
    const { lines } = await run(`${tries.join(';')}; echo; ${ports}; ${found}; ${askMessage}`);
    for (const status of lines[0]!.trim().split(' ')) assert.match(status, /^40[345]$/, lines[0]);
    assert.equal(lines.length, 3, lines.join('\n'));
    assert.equal(lines[2], '200', 'the control: the vendor’s route answers on the same port');
  });

  it('nothing in the box is a key: not in its environment, its files or its processes', async () => {
    const PROVIDER_KEY = 'sk-provider-0123456789abcdef';
    await runtime.modeld.addProvider({
      params: { name: 'dear' },
      body: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', key: PROVIDER_KEY },
    });
    const operatorKey = readFileSync(join(runtime.stateDir, 'operator.key'), 'utf8').trim();
    // Halves, so that the search does not find its own arguments.
    const halves = (key: string) => `'${key.slice(0, 9)}''${key.slice(9)}'`;
    const search = (key: string) =>
      `k=$(printf %s%s ${halves(key).replace("''", "' '")}); ` +
      `for d in / /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do ` +
      `grep -rlsF --exclude-dir=usr --exclude-dir=proc --exclude-dir=dev -e "$k" $d; done`;
    const planted = 'planted-0123456789';
    const stolen = `env | sed -n 's/^[A-Z_]*\\(KEY\\|TOKEN\\)=//p' | sort -u`;
    const script = [
      `printf %s%s ${halves(planted).replace("''", "' '")} > /workspace/planted`,
      search(operatorKey),
      search(PROVIDER_KEY),
      search(planted),
      stolen,
    ].join('\n');
    const { lines, stderr } = await run(script);
    const inert = 'not-a-key-the-box-is-the-identity';
    assert.deepEqual(lines, ['/workspace/planted', inert], stderr);
    assert.equal(await fetchAs(runtime, inert), 401, 'what the box has opens nothing elsewhere');
    assert.equal(await fetchAs(runtime, operatorKey), 200, 'the control');
  });

  it('reaches no other box, and no host', async () => {
    const server = `require('node:http').createServer((_, answer) => answer.end())`;
    const serve = `node -e "${server}.listen(8080, '127.0.0.1')" & sleep 1
      curl -s -o /dev/null -w '%{http_code} ' http://127.0.0.1:8080/; sleep 3; kill %1`;
    const look = `for p in 8080 3128; do curl -s -o /dev/null -w '%{http_code} ' http://127.0.0.1:$p/; done
      curl -s -m 3 -o /dev/null -w '%{http_code} ' http://1.1.1.1/ http://example.com/; ${askMessage}`;
    const [other, own] = await Promise.all([run(serve), run(`sleep 2; ${look}`)]);
    assert.equal(other.stdout, '200 ', 'the control: it serves where it is');
    assert.equal(own.lines[0]?.slice(0, 16), '000 000 000 000 ', own.stdout);
    assert.equal(own.lines.at(-1), '200');
  });
});

function fetchAs(runtime: TestRuntime, key: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request(
      {
        socketPath: join(runtime.runtimeDir, 'modeld', 'operator', 'modeld.sock'),
        path: '/openai/v1/models',
        headers: { authorization: `Bearer ${key}` },
      },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    )
      .on('error', reject)
      .end();
  });
}
