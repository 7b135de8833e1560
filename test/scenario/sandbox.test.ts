// Every runner and every tool in its own box, checked from outside through /proc: as root, where
// agents have their own users, and as an ordinary user.
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { childrenOf, descendantsOf, fieldOf, isAlive, linkOf } from '../support/processes.ts';
import {
  eventually,
  pauses,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import { finishes, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import { create, runnerPids, scriptedModels, TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);

for (const mode of MODES) {
  describe(`sandboxes, as ${mode}`, { timeout: 180_000 }, () => {
    let runtime: TestRuntime;
    let model: ScriptedModel;
    let toold: Client<typeof sandboxdRoutes>;
    let made = 0;
    before(async () => {
      model = await startScriptedModel();
      runtime = await startRuntime({
        agents: TEAM,
        config: JSON.stringify({ modeld: scriptedModels(model.url) }),
        ...(mode === 'user' && IS_ROOT ? { uid: NOBODY } : {}),
      });
      connect();
    });
    after(async () => {
      await runtime.remove();
      await model.close();
    });
    const peerSocket = () => socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
    const connect = () => {
      toold = makeClient(sandboxdRoutes, socketLink({ socketPath: peerSocket() }));
    };

    const wardenPid = () =>
      childrenOf(runtime.process.pid!).find((pid) => fieldOf(pid, 'Name') === 'warden')!;

    const whose = (agent: string, tree: string) => ({
      run_id: deriveId<RunId>('run', mode, agent, tree),
      fence: 1,
      agent,
      task_id: deriveId<TaskId>('task', mode, tree),
      root_task_id: deriveId<TaskId>('task', mode, tree),
    });
    const open = async (agent: string, tree: string) => {
      const id = deriveId<BoxId>('box', mode, made++);
      const rules = { read: [], write: ['/workspace', `/home/${agent}`], deny: [] };
      const network = { egress_socket: null };
      const body = { ...whose(agent, tree), level: 'L2' as const, rules, network };
      return (await toold.openBox({ params: { id }, body })).box_id;
    };
    const exec = async (id: BoxId, script: string, limits = {}): Promise<Collected> =>
      (await toold.execBox({
        params: { id },
        body: {
          call_id: deriveId<CallId>('call', mode, made++),
          argv: ['/bin/sh', '-c', script],
          limits,
          collect: true,
        },
      })) as Collected;
    const textOf = (end: Collected) => Buffer.from(end.stdout_base64, 'base64').toString();

    it('[K53] [R12] [R14] [R22] [R410] a runner sees Node, its program and three sockets, has no capability, and cannot start programs', async () => {
      model.on('Be looked at', { hang: true });
      const task = await create(runtime, 'Be looked at', { agent: 'coder' });
      await eventually('it to work', async () => model.scenesFor('Be looked at')[0]);
      const [init] = await runnerPids(runtime.stateDir, 1);
      const [runner] = childrenOf(init!);
      assert.ok(runner !== undefined, 'the box has a process');
      const uid = mode === 'root' ? 200_000 : IS_ROOT ? NOBODY : process.getuid!();
      assert.ok(Number(fieldOf(runner, 'Uid')) >= uid, fieldOf(runner, 'Uid'));
      assert.notEqual(fieldOf(runner, 'Uid'), '0');
      assert.equal(fieldOf(runner, 'CapEff'), '0000000000000000');
      assert.equal(fieldOf(runner, 'NoNewPrivs'), '1');
      assert.equal(fieldOf(runner, 'Seccomp'), '2');
      const root = `/proc/${runner}/root`;
      assert.deepEqual(readdirSync(join(root, 'run/agentd')).sort(), ['agentd', 'modeld', 'toold']);
      assert.deepEqual(readdirSync(join(root, 'run/agentd/toold')), ['toold.sock']);
      for (const path of ['workspace', 'home', 'root', 'srv', 'usr/bin', 'var'])
        assert.equal(existsSync(join(root, path)), false, `/${path} does not exist`);
      assert.deepEqual(
        readFileSync(`/proc/${runner}/environ`, 'utf8').match(/KEY|TOKEN|HOME/),
        null,
      );
      assert.deepEqual(childrenOf(runner), []);
      for (const space of ['mnt', 'pid', 'net', 'ipc', 'uts', 'user', 'cgroup'])
        assert.notEqual(linkOf(runner, space), linkOf(process.pid, space), space);
      await runtime.agentd.cancelTask({ params: { id: task.id }, body: {} });
      await taskEnded(runtime, task.id);
      await eventually('no process', async () => (existsSync(`/proc/${init}`) ? undefined : true));
    });

    it('[K43] [R162] agents of one task share its files, which other tasks cannot see', async () => {
      const [coder, tester, other] = [
        await open('coder', 'one'),
        await open('planner', 'one'),
        await open('coder', 'other'),
      ];
      const wrote = await exec(coder, 'mkdir dir && echo one > dir/a && cat dir/a && id -u');
      assert.equal(wrote.exit_code, 0, JSON.stringify(wrote));
      const changed = await exec(tester, 'echo two >> dir/a && touch dir/b && cat dir/a && id -u');
      assert.match(textOf(changed), /^one\ntwo\n\d+\n$/);
      if (mode === 'root')
        assert.notEqual(textOf(wrote).split('\n')[1], textOf(changed).split('\n')[2]);
      const [mine, theirs] = [
        await exec(coder, 'echo me > ~/mine; ls ~'),
        await exec(tester, 'ls ~'),
      ];
      assert.equal(textOf(mine), 'mine\n');
      assert.equal(textOf(theirs), '', 'a home is private to its agent');
      assert.equal(textOf(await exec(other, 'ls -A /workspace | grep -v "^.git$"; true')), '');
      for (const id of [coder, tester, other]) await toold.closeBox({ params: { id } });
    });

    it('a command is ended by the limit it hit, and the result names it', async () => {
      const id = await open('coder', 'limits');
      const wall = await exec(id, 'sleep 30', { wall_ms: 200 });
      assert.deepEqual([wall.ended_by, wall.exit_code], ['wall', null]);
      const output = await exec(id, 'yes', { output_bytes: 100_000 });
      assert.equal(output.ended_by, 'output');
      assert.equal(output.usage.stdout_bytes, 100_000);
      assert.equal(textOf(output).length, 100_000);
      const fine = await exec(id, 'echo fine; echo bad >&2; exit 3', { wall_ms: 20_000 });
      assert.deepEqual([fine.exit_code, fine.ended_by, textOf(fine)], [3, null, 'fine\n']);
      assert.equal(Buffer.from(fine.stderr_base64, 'base64').toString(), 'bad\n');
      await toold.closeBox({ params: { id } });
      await assert.rejects(exec(id, 'true'), { code: 'not_found' });
    });

    it('a one-command box of level 1 reads declared paths only; rules it cannot enforce are refused', async () => {
      const once = (rules: object, script: string) =>
        toold.runOnce({
          body: {
            ...whose('coder', 'once'),
            call_id: deriveId<CallId>('call', mode, made++),
            level: 'L1',
            network: { egress_socket: null },
            rules: rules as never,
            argv: ['/bin/sh', '-c', script],
            collect: true,
          },
        }) as Promise<Collected>;
      const rules = { read: ['/usr/share'], write: [], deny: [] };
      assert.match(textOf(await once(rules, 'ls /usr/share')), /zoneinfo|doc/);
      for (const script of ['cat /etc/passwd', `ls ${runtime.stateDir}`, 'touch /tmp/x'])
        assert.notEqual((await once(rules, script)).exit_code, 0, script);
      const writing = { read: [], write: ['/workspace'], deny: [] };
      await assert.rejects(once(writing, 'true'), { code: 'level_unavailable' });
    });

    it('a slow reader blocks the command, and one that disconnects ends it', async () => {
      const id = await open('coder', 'stream');
      const argv = ['/bin/sh', '-c', 'yes & echo $! > /workspace/pid; wait'];
      const limits = { output_bytes: 60_000_000 };
      const body = { call_id: deriveId<CallId>('call', mode, made++), argv, limits };
      const request = http.request({
        socketPath: peerSocket(),
        method: 'POST',
        path: `/v1/boxes/${id}/exec`,
        headers: { host: 'agentd', 'content-type': 'application/json' },
      });
      request.end(JSON.stringify(body));
      const response = await new Promise<http.IncomingMessage>((resolve) =>
        request.once('response', resolve),
      );
      assert.equal(response.headers['content-type'], 'application/x-ndjson');
      const first = await new Promise<Buffer>((resolve) => response.once('data', resolve));
      response.pause();
      const line = JSON.parse(first.toString().split('\n')[0]!) as { stdout: string };
      assert.match(Buffer.from(line.stdout, 'base64').toString(), /^y\ny\n/);
      const yes = await eventually('it to run', async () =>
        descendantsOf(wardenPid()).find((pid) => fieldOf(pid, 'Name') === 'yes'),
      );
      const written = () => /wchar: (\d+)/.exec(readFileSync(`/proc/${yes}/io`, 'utf8'))![1];
      await eventually('it to stand still', async () => {
        const before_ = written();
        await new Promise((resolve) => setTimeout(resolve, 100));
        return written() === before_ ? true : undefined;
      });
      assert.ok(Number(written()) < 10_000_000, `${written()} bytes on their way`);
      request.destroy();
      await eventually('the command to end', async () => {
        const left = await exec(id, 'ls /proc | grep -c "^[0-9]*$"; true');
        return Number(textOf(left)) <= 4 ? true : undefined;
      });
      await toold.closeBox({ params: { id } });
    });

    it('[R163] file operations see exactly what the box sees', async () => {
      const id = await open('coder', 'files');
      const fileOp = (body: object) => toold.boxFiles({ params: { id }, body: body as never });
      await fileOp({ op: 'write', path: '/workspace/a.txt', content: 'hello' });
      const read = (await fileOp({ op: 'read', path: '/workspace/a.txt' })) as { content: string };
      assert.equal(read.content, 'hello');
      await exec(id, 'ln -s /etc/passwd out; ln -s /proc/1/root/etc up');
      for (const path of ['/etc/shadow', '/workspace/out', '/workspace/up/passwd', '/home/x'])
        await assert.rejects(fileOp({ op: 'read', path }), (error: { code: string }) =>
          ['denied', 'not_found'].includes(error.code),
        );
      await toold.closeBox({ params: { id } });
    });

    it('.git/config, hooks and attributes of a workspace cannot be written or created', async () => {
      const id = await open('coder', 'git');
      for (const path of ['.git/config', '.git/hooks/pre-commit', '.git/info/attributes']) {
        const tried = await exec(id, `mkdir -p $(dirname ${path}); echo x > ${path} && echo done`);
        assert.equal(textOf(tried), '', path);
      }
      assert.equal(textOf(await exec(id, 'echo x > free && cat free')), 'x\n', 'control');
      await toold.closeBox({ params: { id } });
    });

    it('a protected file replaced on the host ends the box, and the reason is logged', async () => {
      await toold.closeBox({ params: { id: await open('coder', 'replaced') } });
      const { root_task_id } = whose('coder', 'replaced');
      const config = join(runtime.stateDir, 'workspaces', root_task_id, '.git/config');
      const replace = (): void => {
        mkdirSync(dirname(config), { recursive: true });
        chmodSync(dirname(config), 0o777);
        writeFileSync(`${config}.lock`, '[core]\n');
        chmodSync(`${config}.lock`, 0o666);
        renameSync(`${config}.lock`, config);
      };
      replace();
      const id = await open('coder', 'replaced');
      const running = exec(id, 'touch begun; sleep 60');
      await eventually('it to run', async () =>
        textOf(await exec(id, 'ls')) === 'begun\n' ? true : undefined,
      );
      replace();
      assert.equal((await running).ended_by, 'seal');
      await assert.rejects(exec(id, 'true'), { code: 'not_found' });
      const closed = await eventually('the event', async () => {
        const { events } = await runtime.audit.task({
          params: { task_id: root_task_id },
          query: {},
        });
        return events.find((event) => event.id === `${id}.ended`);
      });
      assert.equal(closed.status, 'seal');
    });

    it('[R6] [R29] [R151] no box reaches the runtime’s sockets, the host’s files or its network', async () => {
      const id = await open('coder', 'walls');
      const tries = [
        `ls ${runtime.runtimeDir}`,
        `ls ${runtime.stateDir}`,
        'ls /run/agentd',
        'cat /etc/shadow',
        'exec 3<>/dev/tcp/127.0.0.1/22',
        'kill -9 1',
      ];
      for (const script of tries)
        assert.notEqual((await exec(id, `bash -c '${script}'`)).exit_code, 0, script);
      await toold.closeBox({ params: { id } });
    });

    it('[C112] [C144] [C161] an agent cannot reach other homes and workspaces, change its manifest, or become root', async () => {
      const [own, colleague, elsewhere] = [
        await open('coder', 'probe'),
        await open('planner', 'probe'),
        await open('coder', 'probe-elsewhere'),
      ];
      const wrote = await exec(own, 'echo mine > ~/x && echo mine > x && cat /home/coder/x');
      assert.equal(textOf(wrote), 'mine\n', 'control: in its own box the path is right');
      const { root_task_id: tree } = whose('coder', 'probe');
      const workspace = join(runtime.stateDir, 'workspaces', tree, 'x');
      const manifest = join(dirname(runtime.stateDir), 'agents', 'coder.yaml');
      const before_ = readFileSync(manifest, 'utf8');
      assert.equal(readFileSync(workspace, 'utf8'), 'mine\n', 'control: so are the host’s');
      const tries: [BoxId, string][] = [
        ...[colleague, elsewhere].flatMap((id): [BoxId, string][] => [
          [id, 'cat /home/coder/x'],
          [id, `cat ${workspace}`],
        ]),
        [colleague, 'echo x > /home/coder/y'],
        [own, `cat ${manifest}`],
        [own, `echo x >> ${manifest}`],
        [own, 'cat /etc/shadow'],
        [own, 'echo x >> /etc/passwd'],
        [own, 'mkdir /etc/agentd'],
        [own, 'sudo -n true'],
        [own, 'su -c true root'],
        [own, 'unshare -Ur mount -t tmpfs none /etc'],
      ];
      for (const [id, script] of tries)
        assert.notEqual((await exec(id, script)).exit_code, 0, script);
      assert.match(
        textOf(await exec(own, 'grep -E "NoNewPrivs|CapEff" /proc/self/status')),
        /CapEff:\t0+\nNoNewPrivs:\t1\n/,
      );
      assert.equal(readFileSync(manifest, 'utf8'), before_);
      for (const id of [own, colleague, elsewhere]) await toold.closeBox({ params: { id } });
    });

    it('[K97] HALT ends boxes within two seconds and none starts; afterwards everything continues', async () => {
      const id = await open('coder', 'halt');
      const running = exec(id, 'sleep 60');
      await eventually('it to run', async () =>
        textOf(await exec(id, 'ls /proc | grep -c "^[0-9]*$"')) >= '3' ? true : undefined,
      );
      writeFileSync(join(runtime.stateDir, 'HALT'), 'a test\n');
      const ended = await Promise.race([
        running.catch((error: { code: string }) => error),
        pauses(2_000).then(() => 'too late' as const),
      ]);
      assert.ok(ended !== 'too late', ended as string);
      assert.ok(
        'code' in ended || ['halt', 'box'].includes(ended.ended_by ?? ''),
        JSON.stringify(ended),
      );
      await assert.rejects(open('coder', 'halt'), { code: 'halted' });
      rmSync(join(runtime.stateDir, 'HALT'));
      await eventually('a box again', () => open('coder', 'halt'));
    });

    it('killing the warden ends its boxes, and it is restarted', async () => {
      const id = await open('coder', 'warden');
      const running = exec(id, 'sleep 60').catch((error: { code: string }) => error.code);
      const warden = wardenPid();
      const boxed = await eventually('it to run', async () => {
        const all = descendantsOf(warden);
        return all.some((pid) => fieldOf(pid, 'Name') === 'sleep') ? all : undefined;
      });
      process.kill(warden, 'SIGKILL');
      assert.equal(await running, 'unavailable');
      for (const pid of boxed)
        await eventually('nothing left', async () => (isAlive(pid) ? undefined : true));
      await eventually('a box again', () => open('coder', 'warden'));
      model.on('After the warden', finishes('still here'));
      const task = await create(runtime, 'After the warden', { agent: 'coder' });
      assert.equal((await taskEnded(runtime, task.id)).result, 'still here');
    });

    it('a killed runtime leaves no process, and restarts with the same users', async () => {
      const id = await open('coder', 'one');
      const before_ = textOf(await exec(id, 'echo kept > kept; id -u'));
      void exec(id, 'sleep 60').catch(() => undefined);
      const warden = wardenPid();
      const tree = [warden, ...childrenOf(warden)];
      await runtime.kill();
      for (const pid of tree)
        await eventually('nothing left', async () => (isAlive(pid) ? undefined : true));
      runtime = await runtime.restart();
      connect();
      const again = await open('coder', 'one');
      assert.equal(textOf(await exec(again, 'id -u; cat kept')), `${before_}kept\n`);
    });
  });
}
