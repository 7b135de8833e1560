// Commands on a terminal: size, job control, signals, hanging up, and bytes that are neither lost
// nor kept in memory. Runs under the sanitizers, as root and as an ordinary user.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  makeWarden,
  type OnStopped,
  type Warden as WardenLink,
} from '../../src/daemons/sandboxd/adapters/warden.ts';
import { eventually } from '../support/runtime.ts';
import { TerminalSession } from './support/terminal.ts';
import { MODES, type PlanOptions, TestWarden } from './support/warden.ts';

const SIGINT = 2;
const SIGKILL = 9;
const SIGCONT = 18;
const SIGTSTP = 20;
const MIB = 2 ** 20;
const pty = { cols: 80, rows: 24 };

for (const mode of MODES) {
  describe(`a terminal, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    let link: WardenLink;
    before(async () => {
      warden = await new TestWarden({ mode, build: 'sanitized' }).start();
      link = makeWarden(warden.socket);
    });
    after(async () => {
      await warden.noBoxes();
      link.close();
      warden.process?.kill('SIGTERM');
      await new Promise((resolve) => warden.process?.once('close', resolve));
      const { stderr } = warden;
      await warden.stop();
      assert.equal(stderr, '', 'no report of the sanitizers');
    });
    const start = async (
      args: string[],
      more: Partial<PlanOptions> = {},
      onStopped?: OnStopped,
    ): Promise<TerminalSession> =>
      new TerminalSession(await link.start(warden.plan(args, { pty, ...more }), onStopped));
    const sh = (script: string, more: Partial<PlanOptions> = {}, onStopped?: OnStopped) =>
      start(['/bin/sh', '-c', script], more, onStopped);
    const bash = () =>
      start(['/bin/bash', '--norc', '-i'], {
        env: { PATH: '/usr/bin:/bin', HOME: '/tmp', PS1: 'READY> ', TERM: 'dumb' },
      });

    it('has the size that was asked for, as all three standard streams', async () => {
      const session = await sh('stty size; tty; test -t 0 -a -t 1 -a -t 2 && echo all three');
      assert.deepEqual((await session.end()).exitCode, 0);
      assert.equal(session.text, '24 80\r\n/dev/pts/0\r\nall three\r\n');
    });

    it('reports the exit status and the signal of the command itself', async () => {
      const exit = await (await sh('(sleep 9 &); exit 7')).end();
      assert.deepEqual([exit.exitCode, exit.signal, exit.endedBy], [7, null, null]);
      const killed = await (await sh('kill -TERM $$')).end();
      assert.deepEqual([killed.exitCode, killed.signal], [null, 15]);
    });

    it('Ctrl-C interrupts the command, and only what is in the foreground of a shell', async () => {
      const cat = await start(['/bin/cat']);
      cat.type('hello\n');
      await cat.until(/hello\r\nhello\r\n/);
      cat.type('\x03');
      assert.equal((await cat.end()).signal, SIGINT);
      const shell = await bash();
      await shell.until(/READY> /);
      shell.type('sleep 60; echo status $?\n');
      await shell.until(/\n/);
      await sleep(100);
      shell.type('\x03');
      await shell.until(/READY> /);
      shell.type('echo alive; exit 4\n');
      await shell.until(/alive\r\n/);
      assert.equal((await shell.end()).exitCode, 4);
    });

    it('a shell has job control: Ctrl-Z, background jobs, fg', async () => {
      const shell = await bash();
      await shell.until(/READY> /);
      assert.doesNotMatch(shell.text, /no job control/);
      shell.type('cat\n');
      await shell.until(/cat\r\n/);
      shell.type('line\n');
      await shell.until(/line\r\nline\r\n/);
      shell.type('\x1a');
      await shell.until(/Stopped +cat[\s\S]*READY> /);
      shell.type('sleep 60 & jobs\n');
      await shell.until(/Stopped +cat[\s\S]*Running +sleep 60[\s\S]*READY> /);
      shell.type('fg %1\n');
      await shell.until(/\ncat\r\n/);
      shell.type('again\n');
      await shell.until(/again\r\nagain\r\n/);
      shell.type('\x04');
      await shell.until(/READY> /);
      shell.type('kill %2; wait; exit 5\n');
      assert.equal((await shell.end()).exitCode, 5);
    });

    it('a new size reaches the foreground group', async () => {
      const watch = 'trap "stty size; exit" WINCH; echo watching; while :; do sleep 0.05; done';
      const direct = await sh(watch);
      await direct.until(/watching\r\n/);
      direct.command.resize({ cols: 132, rows: 43 });
      assert.equal((await direct.end()).exitCode, 0);
      assert.match(direct.text, /43 132\r\n/);
      const shell = await bash();
      await shell.until(/READY> /);
      shell.type(`/bin/sh -c '${watch}'\n`);
      await shell.until(/\r\nwatching\r\n/);
      shell.command.resize({ cols: 65_535, rows: 1 });
      await shell.until(/1 65535\r\n/);
      shell.type('exit\n');
      await shell.end();
      // Sent with the plan, before the terminal exists.
      const early = warden.plan(['/bin/sh', '-c', 'sleep 0.2; stty size'], { pty });
      const starting = link.start(early);
      const session = new TerminalSession(await starting);
      session.command.resize({ cols: 11, rows: 22 });
      await session.end();
      assert.equal(session.text, '22 11\r\n');
    });

    it('a stopped command is reported, and continues when asked to', async () => {
      const stops: number[] = [];
      const session = await start(['/bin/cat'], {}, (signal) => stops.push(signal));
      session.type('one\n');
      await session.until(/one\r\none\r\n/);
      session.type('\x1a');
      await eventually('the report', async () => (stops.length > 0 ? true : undefined));
      assert.deepEqual(stops, [SIGTSTP]);
      session.type('two\n');
      await sleep(100);
      assert.doesNotMatch(session.text, /two\r\ntwo/);
      session.command.signal(SIGCONT);
      await session.until(/two\r\ntwo\r\n/);
      session.type('\x04');
      assert.equal((await session.end()).exitCode, 0);
    });

    it('without a listener, a stopped command continues at once', async () => {
      const session = await start(['/bin/cat']);
      session.type('one\n');
      await session.until(/one\r\none\r\n/);
      session.type('\x1a');
      session.type('two\n');
      await session.until(/two\r\n[\s\S]*two\r\n/);
      session.type('\x04');
      assert.equal((await session.end()).exitCode, 0);
    });

    const hangUp = async (script: string, graceMs: number): Promise<void> => {
      const client = await warden.client();
      const started = new Promise<void>((resolve) => {
        client.onOutput = (text) => {
          if (text.includes('ready')) resolve();
        };
      });
      const plan = warden.plan(['/bin/bash', '-c', script], { pty, limits: { graceMs } });
      const outcome = client.run(plan, null);
      await started;
      client.close();
      assert.equal((await outcome).kind, 'lost');
      await warden.noBoxes();
    };

    it('hangs up when the client goes: the command gets SIGHUP, and ends', async () => {
      const note = join(warden.workspace, 'note');
      rmSync(note, { force: true });
      const said = 'echo hung up > /ws/note; seq 100000; exit';
      const wait = 'echo ready; while :; do sleep 0.05; done';
      await hangUp(`trap "${said}" HUP; ${wait}`, 5_000);
      assert.equal(readFileSync(note, 'utf8'), 'hung up\n');
      rmSync(note);
      // A job of a shell, in a group of its own, and one that is stopped.
      const job = `bash -c 'trap "echo job > /ws/note; exit" HUP; ${wait}'`;
      await hangUp(`set -m; ${job}; sleep 9`, 5_000);
      assert.equal(readFileSync(note, 'utf8'), 'job\n');
      rmSync(note);
      await hangUp(`trap "${said}" HUP; echo ready; kill -STOP $$; sleep 9`, 5_000);
      assert.equal(readFileSync(note, 'utf8'), 'hung up\n');
    });

    it('a command that ignores the hang-up is killed after its grace time', async () => {
      const before = Date.now();
      await hangUp('trap "" HUP TERM; echo ready; while :; do sleep 0.05; done', 300);
      assert.ok(Date.now() - before < 5_000);
      await hangUp('trap "" HUP TERM; echo ready; while :; do sleep 0.05; done', 0);
    });

    it('loses no output of a command that exits at once', async () => {
      for (let run = 0; run < 20; run++) {
        const session = await sh('seq 1 20000; printf the-end');
        assert.equal((await session.end()).exitCode, 0);
        const lines = session.text.split('\r\n');
        assert.equal(lines.length, 20_001);
        assert.equal(lines[19_999], '20000');
        assert.equal(lines.at(-1), 'the-end');
      }
    });

    it('a slow client loses nothing, and the warden keeps little', async () => {
      const resident = () => {
        const status = readFileSync(`/proc/${warden.process?.pid}/status`, 'utf8');
        return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
      };
      const client = await warden.client();
      const script = 'stty raw; yes xxxxxxxxxxxxxxx | head -c 24000000; printf the-end';
      const before = resident();
      const limits = { outputBytes: 64 * MIB };
      const outcome = client.run(warden.plan(['/bin/sh', '-c', script], { pty, limits }), null);
      client.socket.pause();
      await sleep(700);
      assert.ok(resident() - before < 8 * MIB);
      client.socket.resume();
      const exit = await outcome;
      assert.ok(exit.kind === 'exit', exit.kind);
      assert.equal(exit.stdout.length, 24_000_007);
      assert.ok(exit.stdout.endsWith('\nthe-end'));
      client.close();
    });

    it('carries input byte for byte to a command in raw mode', async () => {
      const session = await sh('stty raw -echo; echo raw; head -c 1000000 | sha256sum');
      await session.until(/raw\n/);
      const bytes = randomBytes(1_000_000);
      await session.command.stdin(bytes);
      const hash = createHash('sha256').update(bytes).digest('hex');
      assert.equal((await session.until(/[0-9a-f]{64}/))[0], hash);
      await session.end();
    });

    it('the end of the input ends a command that reads lines', async () => {
      for (const input of ['', 'a line\n', 'half a line']) {
        const session = await sh('stty -echo; echo ready; cat; echo over');
        await session.until(/ready\r\n/);
        if (input !== '') session.type(input);
        session.command.stdinEnd();
        assert.equal((await session.end()).exitCode, 0);
        assert.equal(session.text, `ready\r\n${input.replace('\n', '\r\n')}over\r\n`);
      }
    });

    it('a command may close the terminal and open it again', async () => {
      const session = await sh(
        'exec <&- >&- 2>&-; sleep 0.2; exec 0<>/dev/tty 1>&0 2>&0; echo back; tty',
      );
      assert.equal((await session.end()).exitCode, 0);
      assert.equal(session.text, 'back\r\n/dev/tty\r\n');
    });

    it('commands of one open box have a terminal each', async () => {
      const { args: _, env: __, cwd: ___, ...plan } = warden.plan([], { terminals: true });
      const box = await link.open({ ...plan, limits: { ...plan.limits, wallMs: 60_000 } });
      const exec = async (script: string) =>
        new TerminalSession(
          await box.exec({ ...warden.command(0n, ['/bin/bash', '-c', script]), pty }),
        );
      const one = await exec('tty; read line; echo got $line');
      await one.until(/pts\/0\r\n/);
      const two = await exec('tty; read line; echo got $line; exit 2');
      await two.until(/pts\/1\r\n/);
      one.type('first\n');
      two.type('second\n');
      assert.equal((await one.end()).exitCode, 0);
      assert.equal((await two.end()).exitCode, 2);
      assert.match(one.text, /got first/);
      assert.match(two.text, /got second/);
      const left = await exec('(trap "" HUP; sleep 9 > /ws/x 2>&1 < /dev/null & ); echo gone');
      assert.equal((await left.end()).exitCode, 0);
      const bystander = await exec('echo ready; sleep 60');
      await bystander.until(/ready/);
      await box.close();
      const exit = await bystander.end();
      assert.deepEqual([exit.endedBy, exit.signal], ['box', SIGKILL]);
    });

    it('programs in the box open terminals of their own', async () => {
      const session = await sh("script -qec 'tty; stty size' /dev/null; echo status $?");
      await session.end();
      assert.match(session.text, /\/dev\/pts\/1\r\n24 80\r\nstatus 0\r\n/);
      assert.equal(existsSync(join(warden.workspace, 'typescript')), false);
    });
  });
}
