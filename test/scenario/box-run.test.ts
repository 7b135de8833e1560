// A person's program in a box: its streams, its end, and what the runtime does with it meanwhile.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import {
  type AgentctlResult,
  agentctl,
  documentOf,
  type RunAgentctlOptions,
} from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { PROGRAM_PROTOCOL } from '../../src/wire/sandboxd/programs.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

describe('a program in a box', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime();
  });
  after(() => runtime.remove());

  const cli = (args: string[], options: RunAgentctlOptions = {}) =>
    agentctl(args, { state: runtime.stateDir, env: runtime.env, ...options });
  const run = (args: string[], options: RunAgentctlOptions = {}) =>
    cli(['box', 'run', ...args], options);
  const newest = async (): Promise<TaskView> => {
    const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
    return tasks[0]!;
  };
  const ended = async (): Promise<TaskView> => {
    for (;;) {
      const task = await newest();
      if (task.ended_at !== null) return task;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  /** Runs a script, and does something to it once it has printed `ready`. */
  const meet = async (script: string, work: (task: TaskView) => unknown, args: string[] = []) => {
    let done: Promise<unknown> | undefined;
    const ran = await run([...args, '--', 'sh', '-c', script], {
      watch: ({ stdout }) => {
        if (stdout.includes('ready')) done ??= newest().then(work);
        return undefined;
      },
    });
    await done;
    return ran;
  };

  it('passes arguments, input, both outputs and the exit status through', async () => {
    const script = 'printf "%s|" "$@"; cat; echo problem >&2; exit 7';
    const ran = await run(['--', 'sh', '-c', script, 'sh', '--here', 'a b'], { stdin: 'in\0put' });
    assert.deepEqual(ran, { code: 7, stdout: '--here|a b|in\0put', stderr: 'problem\n' });
    const task = await ended();
    assert.deepEqual([task.status, task.assigned_to], ['failed', 'box']);
    assert.equal(task.error?.message, 'the program exited with status 7');
    assert.match(task.goal, /^sh -c 'printf/);
    assert.equal((await run(['true'])).code, 0);
    assert.equal((await ended()).status, 'completed');
  });

  it('a program that does not exist is an error like a shell’s', async () => {
    const ran = await run(['--', 'no-such-program']);
    assert.equal(ran.code, 127);
    assert.match(ran.stderr, /no-such-program/);
  });

  it('megabytes pass both ways, while the reader is slower than the writer', async () => {
    const bytes = randomBytes(3_000_000).toString('base64');
    const hash = createHash('sha256').update(bytes).digest('hex');
    const ran = await run(['--', 'sh', '-c', 'tee /tmp/x | cat; sha256sum < /tmp/x >&2'], {
      stdin: bytes,
    });
    assert.equal(ran.code, 0);
    // Not compared as text: a difference would print all of it.
    assert.ok(ran.stdout === bytes, `${ran.stdout.length} of ${bytes.length} bytes`);
    assert.equal(ran.stderr.slice(0, 64), hash);
  });

  it('is level 2: its own user and processes, nothing of the runtime', async () => {
    const script = `id -u; ls /proc | grep -c '^[0-9]'; ls ${runtime.stateDir}; pwd
      git init -q . && touch a && git add a && git commit -qm x && git log --format=%an`;
    const ran = await run(['--', 'sh', '-c', script]);
    const lines = ran.stdout.trim().split('\n');
    if (process.getuid?.() === 0) assert.notEqual(lines[0], '0');
    assert.ok(Number(lines[1]) < 8, ran.stdout);
    assert.deepEqual(lines.slice(2), ['/workspace', 'box (agent)']);
    assert.match(ran.stderr, /No such file|cannot access/);
  });

  it('its /proc has the entries about the host that programs read, and no others', async () => {
    const ran = await run([
      '--',
      'sh',
      '-c',
      'cat /proc/sys/kernel/overflowuid; ls /proc/kallsyms',
    ]);
    assert.equal(ran.stdout, '65534\n');
    assert.match(ran.stderr, /kallsyms.*No such file/);
  });

  it('a program of the person’s own is there read-only, and nothing beside it', async () => {
    const home = join(freshDir(), 'home');
    const at = (path: string) => join(home, path);
    mkdirSync(at('tools'), { recursive: true });
    mkdirSync(at('bin'));
    for (const dir of ['', 'tools', 'bin']) chmodSync(at(dir), 0o755);
    const script =
      '#!/bin/sh\ncat "$0" | tail -1\nls "$(dirname "$0")"\necho x > "$0" || echo closed';
    writeFileSync(at('tools/mine'), `${script}\n# the program itself\n`);
    writeFileSync(at('tools/other'), 'not for the box');
    chmodSync(at('tools/mine'), 0o755);
    symlinkSync('../tools/mine', at('bin/mine'));
    const path = { PATH: `${at('bin')}:${process.env.PATH}` };
    const ran = await run(['--', 'mine'], { env: { ...runtime.env, ...path } });
    assert.equal(ran.stdout, '# the program itself\nmine\nclosed\n', ran.stderr);
    assert.match(
      ran.stderr,
      /Boxes may now read .*tools; end that with: agentctl workspace revoke/,
    );
    const again = await run(['--', 'mine'], { env: { ...runtime.env, ...path } });
    assert.doesNotMatch(again.stderr, /may now read/);
    // For reading only: it is no workspace.
    const grants = documentOf<{ grants: { path: string; access: string }[] }>(
      await cli(['workspace', 'list', '--json']),
    );
    const real = realpathSync(at('tools'));
    assert.equal(grants.grants.find((one) => one.path === real)?.access, 'read');
    const refused = runtime.agentd.createProgram({
      body: { workspace: real, workspace_mode: 'live', command: { argv: ['true'] } },
    });
    await assert.rejects(refused, { code: 'denied' });
  });

  it('its home is that of the last one of its directory or name, and of no other', async () => {
    const dirs = ['one', 'two'].map((name) => join(freshDir(), name));
    for (const dir of dirs) mkdirSync(dir);
    const [one, two] = dirs as [string, string];
    const leave = (text: string) => [
      '--',
      'sh',
      '-c',
      `cat ~/file 2>/dev/null; echo ${text} > ~/file`,
    ];
    const seen: string[] = [];
    for (const args of [
      ['--workspace', one],
      ['--workspace', two],
      ['--workspace', one],
      ['--name', 'mine', '--workspace', one],
      ['--name', 'mine'],
      [],
      [],
    ])
      seen.push((await run([...args, ...leave(`run-${seen.length}`)])).stdout.trim());
    assert.deepEqual(seen, ['', '', 'run-0', '', 'run-3', '', '']);
  });

  it('has room for a large program in /tmp', async () => {
    const ran = await run(['--', 'sh', '-c', 'head -c 420000000 /dev/zero > /tmp/x && ls /tmp']);
    assert.deepEqual(ran, { code: 0, stdout: 'x\n', stderr: '' });
  });

  it('[K24] [K47] --agent NAME is a shell as that agent: its home, its rights, its name in git', async () => {
    const script = `echo $HOME; cd /tmp; git init -q own; cd own
      git commit -q --allow-empty -m one; git log --format='%an <%ae>'
      echo x > /workspace/file && echo wrote`;
    const shell = (agent: string) => run(['--agent', agent, '--', 'bash'], { stdin: script });
    const coder = await shell('coder');
    const coderCommits = 'coder (coder) <coder@agents.invalid>';
    assert.deepEqual(coder.stdout.trimEnd().split('\n'), ['/home/coder', coderCommits, 'wrote']);
    assert.equal((await ended()).assigned_to, 'coder');
    const researcher = await shell('researcher');
    const [home, who, ...rest] = researcher.stdout.trimEnd().split('\n');
    assert.deepEqual([home, rest], ['/home/researcher', []], researcher.stderr);
    assert.equal(who, 'researcher (researcher) <researcher@agents.invalid>');
    assert.match(researcher.stderr, /\/workspace\/file: .*(denied|[Rr]ead-only)/);
  });

  it('a signal reaches it, and how it ended is how agentctl ends', async () => {
    const caught = await run(
      [
        '--',
        'sh',
        '-c',
        'trap "echo caught; exit 3" TERM; echo ready; while :; do sleep 0.05; done',
      ],
      {
        watch: ({ stdout }) => (stdout.includes('ready') ? 'SIGTERM' : undefined),
      },
    );
    assert.deepEqual([caught.code, caught.stdout], [3, 'ready\ncaught\n']);
    const killed = await run(['--', 'sh', '-c', 'kill -USR1 $$']);
    assert.equal(killed.code, 138);
    assert.equal((await ended()).reason, 'the program was ended by SIGUSR1');
  });

  it('cancel, halt and stop of its agent end it, and the task says so', async () => {
    const wait = 'echo ready; sleep 60';
    const canceled = await meet(wait, ({ id }) => cli(['task', 'cancel', id]));
    assert.equal(canceled.code, 137);
    assert.match(canceled.stderr, /the program was ended/);
    assert.equal((await ended()).status, 'canceled');
    await meet(wait, () => cli(['stop', 'box']));
    assert.equal((await ended()).reason, 'the agent was stopped');
    await cli(['resume', 'box']);
    await meet(wait, () => cli(['halt']));
    assert.match((await ended()).reason ?? '', /halt/);
    const refused = await run(['--', 'true']);
    assert.deepEqual([refused.code, refused.stdout], [1, '']);
    assert.match(refused.stderr, /halted/);
    await cli(['unhalt']);
    assert.equal((await run(['--', 'true'])).code, 0);
  });

  it('a client that is killed hangs it up', async () => {
    const script = 'trap "exit 0" HUP; echo ready; while :; do sleep 0.05; done';
    await run(['--', 'sh', '-c', script], {
      watch: ({ stdout }) => (stdout.includes('ready') ? 'SIGKILL' : undefined),
    });
    assert.equal((await ended()).status, 'completed');
  });

  it('nobody else attaches: not without the token, not twice', async () => {
    const body = { command: { argv: ['cat'] } };
    const { run_id, token } = await runtime.agentd.createProgram({ body });
    const attach = (value: string, upgrade = PROGRAM_PROTOCOL): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const request = http.request({
          socketPath: socketPathFor(runtime.runtimeDir, 'sandboxd', 'operator'),
          method: 'POST',
          path: `/v1/sandboxes/programs/${run_id}/attach`,
          headers: {
            authorization: `Bearer ${runtime.operatorKey}`,
            connection: 'upgrade',
            upgrade,
            'content-type': 'application/json',
          },
        });
        request.on('upgrade', ({ statusCode }, socket) => {
          open.push(socket);
          resolve(statusCode);
        });
        request.on('response', (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        request.on('error', reject);
        request.end(JSON.stringify({ token: value }));
      });
    const open: Duplex[] = [];
    assert.equal(await attach('A'.repeat(43)), 404);
    assert.equal(await attach(token, 'websocket'), 400);
    assert.equal(await attach(token), 101);
    assert.equal(await attach(token), 404);
    for (const socket of open) socket.destroy();
    assert.equal((await ended()).reason, 'the program was ended by SIGHUP');
  });

  it('is in the log: the task as a program, its box, its end', async () => {
    await run(['--', 'true']);
    const task = await ended();
    const { events } = await runtime.audit.task({ params: { task_id: task.id }, query: {} });
    const kinds = events.map(({ event }) => event);
    for (const kind of ['task.created', 'run.started', 'sandbox.opened', 'run.ended'])
      assert.ok(kinds.includes(kind as never), kinds.join(' '));
    const created = events.find(({ event }) => event === 'task.created');
    assert.equal(created?.data?.program, true);
    const opened = events.find(({ event }) => event === 'sandbox.opened');
    assert.equal(opened?.data?.kind, 'program');
    const shown = documentOf<{ task: TaskView }>(await cli(['task', 'show', task.id, '--json']));
    assert.deepEqual(shown.task.program, { argv: ['true'] });
  });

  it('bad use is refused before anything starts', async () => {
    const cases: [string[], RegExp][] = [
      [[], /needs COMMAND/],
      [['--layer', '--', 'true'], /--layer without a directory/],
      [['--agent', 'nobody', '--', 'true'], /nobody/],
    ];
    for (const [args, message] of cases) {
      const ran: AgentctlResult = await run(args);
      assert.notEqual(ran.code, 0);
      assert.match(ran.stderr, message);
    }
  });
});
