// curl against a real runtime, over its sockets and its port: what a script can do, and what the
// port refuses.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import type { DaemonName } from '../../src/wire/daemons.ts';
import { runSocketOf } from '../support/callers.ts';
import { eventually, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';

type Reply = { status: number; body: string; json: Record<string, unknown> };

function curl(...argv: string[]): Promise<Reply> {
  const format = ['-sS', '-w', '\n%{http_code}', '--max-time', '20'];
  return new Promise((resolve, reject) => {
    execFile('curl', [...format, ...argv], { maxBuffer: 64_000_000 }, (error, out, said) => {
      if (error !== null) return reject(new Error(said, { cause: error }));
      const at = out.lastIndexOf('\n');
      const body = out.slice(0, at);
      const status = Number(out.slice(at + 1));
      const isJson = body.startsWith('{');
      resolve({ status, body, json: isJson ? (JSON.parse(body) as Reply['json']) : {} });
    });
  });
}

const codeOf = ({ json }: Reply): unknown => (json.error as { code?: unknown } | undefined)?.code;

describe('curl', () => {
  let runtime: TestRuntime;
  let key: string[];
  before(async () => {
    runtime = await startRuntime({ port: 0 });
    key = ['-H', `Authorization: Bearer ${runtime.operatorKey}`];
  });
  after(() => runtime.remove());

  const socket = (daemon: DaemonName, path: string, ...more: string[]) =>
    curl(
      '--unix-socket',
      socketPathFor(runtime.runtimeDir, daemon, 'operator'),
      ...more,
      ...key,
      `http://agentd${path}`,
    );
  const port = (path: string, ...more: string[]) =>
    curl(...more, `http://127.0.0.1:${runtime.info.port}${path}`);

  it('[R276] reads and writes over a socket', async () => {
    const { status, json } = await socket('agentd', '/v1/agents');
    assert.equal(status, 200);
    assert.ok((json.agents as { name: string }[]).some(({ name }) => name === 'planner'));
    const made = await socket(
      'agentd',
      '/v1/tasks',
      '-d',
      '{"goal":"Say hello","agent":"coder"}',
      '-H',
      'content-type: application/json',
    );
    assert.equal(made.status, 200, made.body);
    const { id } = made.json.task as { id: string };
    assert.equal((await taskEnded(runtime, id)).status, 'completed');
  });

  it('every daemon responds on its own socket', async () => {
    for (const [daemon, path] of [
      ['toold', '/v1/tools'],
      ['modeld', '/v1/models'],
      ['approvald', '/v1/approvals/key'],
      ['auditd-ai', '/v1/audit/checkpoint'],
    ] as const)
      assert.equal((await socket(daemon, path)).status, 200, daemon);
    const without = await curl(
      '--unix-socket',
      socketPathFor(runtime.runtimeDir, 'agentd', 'operator'),
      'http://agentd/v1/status',
    );
    assert.equal(codeOf(without), 'unauthenticated');
  });

  it('[R287] [R292] [R299] reaches every daemon through the one port', async () => {
    for (const path of [
      '/v1/status',
      '/v1/tools',
      '/v1/models',
      '/v1/approvals',
      '/v1/permits',
      '/v1/audit/events',
      '/openai/v1/models',
    ])
      assert.equal((await port(path, ...key)).status, 200, path);
    for (const daemon of ['agentd', 'toold', 'modeld', 'auditd-ai']) {
      const { body } = await port(`/daemons/${daemon}/metrics`, ...key);
      assert.match(body, new RegExp(`agentd_requests_total\\{daemon="${daemon}"`));
    }
  });

  it('the port refuses a wrong Host, Origin or key, and names it', async () => {
    const name = `127.0.0.1:${runtime.info.port}`;
    const cases: [string[], number, string][] = [
      [[], 401, 'unauthenticated'],
      [['-H', 'Authorization: Bearer wrong'], 401, 'unauthenticated'],
      [['-H', 'Authorization: Basic eDp5'], 401, 'unauthenticated'],
      [['-H', 'x-api-key: wrong'], 401, 'unauthenticated'],
      [[...key, '-H', 'Host: evil.example'], 403, 'forbidden_origin'],
      [[...key, '-H', `Host: evil.example:${runtime.info.port}`], 403, 'forbidden_origin'],
      [[...key, '-H', 'Host:'], 403, 'forbidden_origin'],
      [[...key, '-H', 'Origin: http://evil.example'], 403, 'forbidden_origin'],
      [[...key, '-H', 'Origin: null'], 403, 'forbidden_origin'],
      [[...key, '-H', `Origin: http://localhost:1`], 403, 'forbidden_origin'],
      [['-X', 'OPTIONS', '-H', 'Origin: http://evil.example'], 403, 'forbidden_origin'],
    ];
    for (const [more, status, code] of cases) {
      const reply = await port('/v1/status', ...more);
      assert.equal(reply.status, status, more.join(' '));
      assert.equal(codeOf(reply), code, more.join(' '));
    }
    for (const good of [
      ['-H', `Origin: http://${name}`],
      ['-H', `Host: localhost:${runtime.info.port}`],
    ])
      assert.equal((await port('/v1/status', ...key, ...good)).status, 200, good.join(' '));
    const asKey = ['-H', `x-api-key: ${runtime.operatorKey}`];
    assert.equal((await port('/v1/status', ...asKey)).status, 200);
  });

  it('the socket of an ended run is gone, whatever the key', async () => {
    const { runs } = await runtime.agentd.listRuns({ query: { limit: 1 } });
    const path = runSocketOf(runtime, 'agentd', runs[0]!);
    await assert.rejects(curl('--unix-socket', path, ...key, 'http://agentd/v1/status'), /connect/);
  });

  it('socket and port refuse 10 MB with the reason', async () => {
    const file = join(runtime.stateDir, '..', 'big.json');
    writeFileSync(file, JSON.stringify({ goal: 'x'.repeat(10_000_000) }));
    const send = ['--data-binary', `@${file}`, '-H', 'content-type: application/json'];
    for (const reply of [
      await socket('agentd', '/v1/tasks', ...send),
      await port('/v1/tasks', ...key, ...send),
      // Without Expect, curl sends the body without waiting.
      await socket('agentd', '/v1/tasks', ...send, '-H', 'Expect:'),
      await port('/v1/tasks', ...key, ...send, '-H', 'Expect:'),
      await port('/v1/tasks', ...key, ...send, '-H', 'Expect:', '-H', 'Transfer-Encoding: chunked'),
    ]) {
      assert.equal(reply.status, 413);
      assert.equal(codeOf(reply), 'too_large');
    }
  });

  it('[R299] follows the audit log over socket and port, and resumes where it stopped', async () => {
    const { events } = await runtime.audit.events({ query: { limit: 10 } });
    const last = events.at(-1)!.seq;
    const path = `/v1/audit/events?follow=1&after=${last}`;
    const ways = [
      [
        '--unix-socket',
        socketPathFor(runtime.runtimeDir, 'auditd-ai', 'operator'),
        `http://agentd${path}`,
      ],
      [`http://127.0.0.1:${runtime.info.port}${path}`],
    ];
    for (const way of ways) {
      const child = spawn('curl', ['-sSN', ...key, ...way]);
      let text = '';
      child.stdout.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8');
      });
      const { task } = await runtime.agentd.createTask({
        body: { goal: 'Be seen', agent: 'coder' },
      });
      await eventually('the end of the task in the stream', async () =>
        text.includes(`${task.id}.ended`) ? true : undefined,
      );
      child.kill();
      const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
      assert.deepEqual(
        ids,
        Array.from({ length: ids.length }, (_, i) => last + 1 + i),
        'every event once, from the next one on',
      );
    }
  });

  it('[R290] streams a model’s response as it arrives', async () => {
    const body = {
      model: 'default',
      stream: true,
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'hello' }] }],
    };
    const { status, body: text } = await port(
      '/v1/models/generate',
      '-N',
      ...key,
      '-d',
      JSON.stringify(body),
      '-H',
      'content-type: application/json',
    );
    assert.equal(status, 200);
    const events = [...text.matchAll(/^data: (.*)$/gm)].map(
      ([, data]) => JSON.parse(data!) as { type: string },
    );
    assert.equal(events.at(-1)!.type, 'done');
    assert.ok(events.filter(({ type }) => type === 'text').length > 1);
  });

  it('one Idempotency-Key creates one task, however often curl is run', async () => {
    const send = () =>
      port(
        '/v1/tasks',
        ...key,
        '-H',
        'Idempotency-Key: once-1',
        '-H',
        'content-type: application/json',
        '-d',
        '{"goal":"Only once","agent":"coder"}',
      );
    const all = await Promise.all([send(), send(), send()]);
    const ids = new Set(all.map(({ json }) => (json.task as { id: string }).id));
    assert.equal(ids.size, 1);
  });
});
