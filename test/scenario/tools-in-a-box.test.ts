// The tools in a real box: confined by the warden, as the agent's own user, with git's settings
// protected. As root, where agents have their own users, and as an ordinary user.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeRunBoxes } from '../../src/daemons/toold/boxes/run-boxes.ts';
import type { ToolRun } from '../../src/daemons/toold/runs.ts';
import { fileTools } from '../../src/daemons/toold/tools/files.ts';
import { gitTools } from '../../src/daemons/toold/tools/git.ts';
import { logTools } from '../../src/daemons/toold/tools/logs.ts';
import { shellTools } from '../../src/daemons/toold/tools/shell.ts';
import type { ToolContext } from '../../src/daemons/toold/tools/tool.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { silentLog } from '../../src/platform/log.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { GIT_ENV } from '../support/git-env.ts';
import { startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);
const WHO = '%an <%ae>, %cn <%ce>';
const CODER = 'coder (coder) <coder@agents.invalid>, coder (coder) <coder@agents.invalid>';

for (const mode of MODES) {
  describe(`tools in a box, as ${mode}`, () => {
    const taskId = deriveId<TaskId>('task', 'tools-in-a-box', mode);
    let runtime: TestRuntime;
    let outside: string;
    let workspace: string;
    let close: () => Promise<void>;
    let ask: (name: string, input: object, agent?: string) => Promise<Record<string, unknown>>;

    before(async () => {
      const asUser = mode === 'user' && IS_ROOT ? { uid: NOBODY } : {};
      const config = JSON.stringify({ sandboxd: { read_roots: ['/var/tmp'] } });
      runtime = await startRuntime({ agents: TEAM, config, ...asUser });
      // A box has its own /tmp.
      outside = mkdtempSync('/var/tmp/tools-in-a-box-');
      writeFileSync(join(outside, 'app.log'), 'GET /slow 2000ms\n');
      execFileSync('chmod', ['-R', 'a+rX', outside]);
      workspace = join(runtime.stateDir, 'workspaces', taskId);
      plantRepository();
      ({ ask, close } = makeAsk());
    });
    after(async () => {
      await close();
      await runtime.remove();
      rmSync(outside, { recursive: true, force: true });
    });

    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'safe.directory=*', ...args], {
        cwd: workspace,
        env: GIT_ENV,
        encoding: 'utf8',
      });

    /** Creates a repository with a hostile hook and filter. */
    function plantRepository(): void {
      mkdirSync(workspace, { recursive: true, mode: 0o700 });
      git('init', '--quiet', '--initial-branch=main');
      writeFileSync(join(workspace, 'app.js'), 'slow();\n');
      writeFileSync(join(workspace, '.gitattributes'), '* filter=evil\n');
      git('add', '.');
      git('commit', '--quiet', '-m', 'first');
      git('config', 'user.name', 'Ann');
      git('config', 'filter.evil.clean', 'touch /workspace/ran; cat');
      const hook = join(workspace, '.git/hooks/pre-commit');
      writeFileSync(hook, '#!/bin/sh\ntouch /workspace/ran\n', { mode: 0o755 });
      if (mode === 'user' && IS_ROOT)
        execFileSync('chown', ['-R', `${NOBODY}:${NOBODY}`, join(workspace, '..')]);
    }

    function makeAsk() {
      const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
      const sandboxd = makeClient(sandboxdRoutes, socketLink({ socketPath }));
      let made = 0;
      const rulesOf = async (agent: string) => ({
        read: [outside],
        write: ['/workspace', `/home/${agent}`],
        deny: [],
        opened: [],
        network: { mode: 'none' as const, allow: [], granted: [] },
        resources: { cpu: null, memoryBytes: null, pids: null },
      });
      const boxes = makeRunBoxes({
        sandboxd,
        egressd: {} as never,
        ways: { close: async () => undefined } as never,
        policy: { planAgentBox: rulesOf as never, planDeclaredPaths: async () => ({ deny: [] }) },
        grants: { hostsFor: async () => [] },
        markProgram: async () => undefined,
        newBoxId: () => deriveId<BoxId>('box', 'tools-in-a-box', mode, made++),
        runOf: () => runOf('coder'),
        clock: systemClock(),
        log: silentLog,
      });
      const runs = new Map<string, ToolRun>();
      const runOf = (agent: string): ToolRun => {
        const runId = deriveId<RunId>('run', 'tools-in-a-box', mode, agent);
        const run = {
          runId,
          fence: 1,
          agent,
          persona: agent === 'coder' ? 'coder' : undefined,
          taskId,
          rootTaskId: taskId,
          chosenHosts: [],
          workspace: null,
        };
        const found = runs.get(agent) ?? ({ ...run, labels: new Set() } as unknown as ToolRun);
        runs.set(agent, found);
        return found;
      };
      const tests = { default: ['/bin/sh', '-c', 'grep -q fast app.js'] };
      const tools = [...fileTools(), ...gitTools(), ...logTools(), ...shellTools({ tests })];
      return {
        async ask(name: string, input: object, agent = 'coder') {
          const one = tools.find((tool) => tool.name === name)!;
          const run = runOf(agent);
          const callId = deriveId<CallId>('call', 'tools-in-a-box', mode, made++);
          const { signal } = new AbortController();
          const context: ToolContext = {
            runId: run.runId,
            fence: 1,
            callId,
            agent,
            persona: run.persona,
            taskId,
            rootTaskId: taskId,
            signal,
            box: () => boxes.boxFor(run, { callId, signal, touched: [] }),
          };
          const effect = await one.perform(one.input.parse(input), context);
          if ('result' in effect) return one.output.parse(effect.result);
          throw Object.assign(new Error(), 'error' in effect ? effect.error : {});
        },
        close: async () => {
          for (const run of runs.values()) await boxes.close(run);
        },
      };
    }

    it('[R402, R419] files are read and written as the agent, and none outside', async () => {
      assert.equal((await ask('file.read', { path: 'app.js' })).text, 'slow();\n');
      await ask('file.write', { path: 'src/new.js', text: 'x\n' });
      assert.equal(readFileSync(join(workspace, 'src/new.js'), 'utf8'), 'x\n');
      const found = await ask('file.search', { pattern: 'slow' });
      assert.deepEqual(
        (found.matches as { path: string }[]).map(({ path }) => path),
        ['app.js'],
      );
      await assert.rejects(ask('file.read', { path: '/etc/passwd' }), { code: 'denied' });
      await ask('shell.exec', { command: `ln -s ${outside}/app.log way; ln -s /etc/passwd pw` });
      await assert.rejects(ask('file.read', { path: 'way' }), { code: 'denied' });
      await assert.rejects(ask('file.read', { path: 'pw' }), { code: 'denied' });
      await ask('shell.exec', { command: 'rm -r way pw src' });
    });

    it('declared logs can be read, and never written', async () => {
      const log = join(outside, 'app.log');
      assert.equal((await ask('logs.read', { path: log })).text, 'GET /slow 2000ms');
      await assert.rejects(ask('file.write', { path: log, text: '' }), { code: 'denied' });
      const shell = await ask('shell.exec', { command: `echo x >> ${log}` });
      assert.notEqual(shell.exit_code, 0);
    });

    it('[K47] [R419] git commits, in a worktree too, and runs no program of the repository', async () => {
      assert.equal((await ask('git.status', {})).branch, 'main');
      await ask('git.worktree', { action: 'add', path: 'wt', branch: 'fix' });
      const edit = [{ old_text: 'slow', new_text: 'fast' }];
      await ask('file.edit', { path: 'wt/app.js', edits: edit });
      const done = await ask('git.commit', { repo: 'wt', message: 'make it fast', all: true });
      assert.equal(done.branch, 'fix');
      assert.equal(git('show', 'fix:app.js'), 'fast();\n');
      assert.equal(git('log', '-1', `--format=${WHO}`, 'fix'), `${CODER}\n`);
      assert.equal((await ask('tests.run', { cwd: 'wt' })).passed, true);
      assert.equal((await ask('tests.run', {})).passed, false);
      await ask('git.branch', { action: 'create', name: 'spare' });
      await ask('git.branch', { action: 'switch', name: 'main' });
      await ask('git.branch', { action: 'delete', name: 'spare' });
      assert.equal(existsSync(join(workspace, 'ran')), false, 'a program of the repository ran');
    });

    it('[K47] a commit by a command is the agent’s, whatever the repository says', async () => {
      const command =
        'git init -q /tmp/own && cd /tmp/own && git config user.name Ann && ' +
        `git commit -q --allow-empty -m one && git log --format='${WHO}'`;
      const done = await ask('shell.exec', { command });
      assert.deepEqual([done.stdout, done.stderr], [`${CODER}\n`, '']);
    });

    it("agents of one task work on the same files without overwriting each other's changes", async () => {
      const seen = await ask('file.read', { path: 'app.js' }, 'researcher');
      await ask('file.write', { path: 'app.js', text: 'mine();\n' });
      const stale = { path: 'app.js', text: 'other();\n', expected_sha256: seen.sha256 };
      await assert.rejects(ask('file.write', stale, 'researcher'), { code: 'conflict' });
      await ask('file.write', { path: 'app.js', text: 'ours();\n' }, 'researcher');
      assert.equal((await ask('file.read', { path: 'app.js' })).text, 'ours();\n');
      const done = await ask('git.commit', { message: 'ours', paths: ['app.js'] }, 'researcher');
      assert.equal(done.branch, 'main');
      assert.equal(git('log', '-1', '--format=%an'), 'researcher (agent)\n');
    });

    it("git's settings and hooks cannot be changed, as a file or by a command", async () => {
      const before = readFileSync(join(workspace, '.git/config'), 'utf8');
      for (const path of ['.git/config', '.git/hooks/post-commit'])
        await assert.rejects(ask('file.write', { path, text: 'x' }), { code: 'denied' });
      const script = 'echo x >> .git/config; echo x > .git/hooks/post-commit; mv .git/hooks away';
      assert.notEqual((await ask('shell.exec', { command: script })).exit_code, 0);
      assert.equal(readFileSync(join(workspace, '.git/config'), 'utf8'), before);
      assert.equal(existsSync(join(workspace, '.git/hooks/post-commit')), false);
    });
  });
}
