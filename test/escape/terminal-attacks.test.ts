// Attacks through the terminal of a box, each with its control, and plans that ask for a terminal
// where there is none.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import {
  makeWarden,
  type Warden as WardenLink,
} from '../../src/daemons/sandboxd/adapters/warden.ts';
import { type EscapeCase, exited, runCases } from './support/cases.ts';
import { TerminalSession } from './support/terminal.ts';
import { MODES, type PlanOptions, TestWarden } from './support/warden.ts';

const pty = { cols: 80, rows: 24 };

function acceptsInjectedInput(): boolean {
  try {
    return readFileSync('/proc/sys/dev/tty/legacy_tiocsti', 'utf8').trim() !== '0';
  } catch {
    return true; // older than the setting
  }
}

const cases: EscapeCase[] = [
  {
    id: 'C12',
    title: 'the calls that change a terminal for others are refused on one',
    attack: ['terminal-calls'],
    off: ['seccomp'],
    plan: { pty },
  },
  {
    id: 'C12',
    title: 'no other device takes control calls in a box with terminals',
    attack: ['ioctl-device', '/dev/urandom'],
    off: ['landlock'],
    plan: { pty },
    says: /ioctl EACCES/,
  },
];
// Linux can be set to refuse this for everyone: then there is nothing to compare with.
if (acceptsInjectedInput())
  cases.push({
    id: 'C12',
    title: 'no input can be injected into the terminal of a box',
    attack: ['inject-input'],
    off: ['seccomp'],
    plan: { pty },
    says: /TIOCSTI EPERM/,
  });
runCases(cases);

for (const mode of MODES) {
  describe(`terminals, as ${mode}`, { timeout: 120_000 }, () => {
    let warden: TestWarden;
    let link: WardenLink;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
      link = makeWarden(warden.socket);
    });
    after(async () => {
      link.close();
      await warden.stop();
    });
    const run = async (args: string[], more: Partial<PlanOptions> = {}) =>
      exited(await warden.run(args, more, ''));

    it('exist only in boxes that were opened for them', async () => {
      const list = ['/bin/sh', '-c', 'cd /dev; ls -d tty pts ptmx pts/*; ls | wc -l'];
      const without = await run(list);
      assert.equal(without.stdout, '10\n');
      const open = await run(list, { terminals: true });
      assert.equal(open.stdout, 'ptmx\npts\npts/ptmx\ntty\n13\n');
      const attack = ['/opt/hostile', 'open-tty'];
      assert.match((await run(attack)).stdout, /ENOENT/);
      assert.match((await run(attack, { terminals: true })).stdout, /ENXIO/, 'no terminal is its');
      assert.match((await run(attack, { pty })).stdout, /worked/, 'control');
      const many = ['/opt/hostile', 'open-terminals', '1'];
      assert.match((await run(many)).stdout, /made 0/);
      assert.match((await run(many, { terminals: true })).stdout, /made 1/, 'control');
    });

    it('a box opens up to 64 of them, and another box still gets one', async () => {
      const more = { terminals: true, limits: { nofile: 1024 } };
      const { stdout } = await run(['/opt/hostile', 'open-terminals', '200'], more);
      assert.match(stdout, /made 64\nfailed ptmx ENOSPC/);
      const { args: _, env: __, cwd: ___, ...plan } = warden.plan([], more);
      const box = await link.open({ ...plan, limits: { ...plan.limits, wallMs: 60_000 } });
      const hold = { ...warden.command(0n, ['/bin/bash', '-c', HOLD_ALL]), pty };
      hold.limits.nofile = 1024;
      const holder = new TerminalSession(await box.exec(hold));
      await holder.until(/held 63/);
      await assert.rejects(box.exec(hold), /opening a terminal: the box has too many open/);
      assert.equal((await run(['/bin/true'], { pty })).code, 0);
      await box.close();
      await holder.end();
    });

    it('are refused where there is none', async () => {
      const refused = async (more: Partial<PlanOptions>) => {
        const outcome = await warden.run(['/bin/true'], more);
        return outcome.kind === 'refused' ? `${outcome.code} ${outcome.message}` : outcome.kind;
      };
      const none = /^plan a terminal needs level 2/;
      assert.match(await refused({ pty, level: 1 }), none);
      assert.match(await refused({ pty, profile: 'runner' }), none);
      assert.match(await refused({ terminals: true, profile: 'runner' }), none);
      for (const size of [
        { cols: 0, rows: 24 },
        { cols: 80, rows: 0 },
      ])
        assert.match(await refused({ pty: size }), /at least one column/);
      const box = await warden.open({});
      const client = await warden.client();
      const outcome = await client.exec({ ...warden.command(box.box, ['/bin/true']), pty });
      assert.ok(outcome.kind === 'refused', outcome.kind);
      assert.match(outcome.message, /opened without terminals/);
      client.close();
      box.client.close();
    });

    it('C12 the keys of a terminal that was given to the box’s init do not end it', async () => {
      const { args: _, env: __, cwd: ___, ...plan } = warden.plan([], { terminals: true });
      const box = await link.open({ ...plan, limits: { ...plan.limits, wallMs: 60_000 } });
      const give = ['/opt/hostile', 'give-terminal-away'];
      const sessions = [
        await link.start(warden.plan(give, { pty })),
        await box.exec({ ...warden.command(0n, give), pty }),
      ].map((command) => new TerminalSession(command));
      for (const session of sessions) {
        await session.until(/given/);
        session.type('\x03\x1a\x1c');
        assert.deepEqual((await session.end()).exitCode, 0, session.text);
        assert.match(session.text, /worked/);
      }
      await box.close();
    });

    it('C12 the session of a terminal stays with the box’s init', async () => {
      const command = await link.start(
        warden.plan(['/opt/hostile', 'take-over-session'], { pty, limits: { wallMs: 1_000 } }),
      );
      const session = new TerminalSession(command);
      await session.until(/failed TIOCSCTTY EPERM/);
      await session.end();
    });

    it('input waits at the client while the command does not read', async () => {
      const session = new TerminalSession(
        await link.start(warden.plan(['/bin/sh', '-c', 'stty raw; echo raw; sleep 60'], { pty })),
      );
      await session.until(/raw/);
      // The client keeps to the window: nothing is lost, and the rest waits there.
      let isThrough = false;
      void session.command.stdin(Buffer.alloc(300_000)).then(() => {
        isThrough = true;
      });
      await new Promise((resolve) => setTimeout(resolve, 300));
      assert.equal(isThrough, false);
      session.command.kill();
      assert.equal((await session.end()).endedBy, 'killed');
    });
  });
}

const HOLD_ALL = `
for ((i = 0; i < 80; i++)); do
  exec {fd}<>/dev/ptmx || break
done 2>/dev/null
echo held $i
sleep 60
`;
