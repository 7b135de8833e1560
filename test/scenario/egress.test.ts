// Real programs reach the network from the box of a real run: git and npm, with and without TLS.
// Their traffic is limited, and removing a host from the manifest aborts connections to it.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CERT, KEY } from '../../src/daemons/egressd/testing/cert.ts';
import { startHttp, startTls, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import { gitServer } from '../support/git-server.ts';
import { registry } from '../support/package-registry.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, doTask, manifestOf, scriptedModels } from '../support/scripted-world.ts';

const BYTES_MAX = 1_000_000;
const NAMES = ['packages', 'git', 'files', 'first', 'second'].map((name) => `${name}.good.test`);
const IS_ROOT = process.getuid?.() === 0;
/** An ordinary user's boxes reach the same listener at another address. */
const MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);
const NOBODY = 65_534;

type Result = {
  exit_code: number;
  stdout: string;
  stderr: string;
  network_denied?: { host: string; reason: string; hint: string }[];
};

for (const mode of MODES)
  describe(`egress of a real run, as ${mode}`, { timeout: 180_000 }, () => {
    let runtime: TestRuntime;
    let model: ScriptedModel;
    let ports: Record<'packages' | 'git' | 'secure' | 'files' | 'echo', number>;
    const servers: WirePosition[] = [];
    const dir = mkdtempSync(join(tmpdir(), 'agentd-egress-'));
    const hostsOf = (without?: string) =>
      NAMES.filter((name) => name !== without).flatMap((name) =>
        Object.values(ports).map((port) => `"${name}:${port}"`),
      );
    const workerOf = (without?: string) =>
      manifestOf(
        'worker',
        `{ tools: { allow: [shell.exec] }, ` +
          `network: { mode: restricted, allow: [${hostsOf(without).join(', ')}] } }`,
      );

    before(async () => {
      model = await startScriptedModel();
      const repository = gitServer(dir);
      const register = async (started: Promise<WirePosition>) => {
        servers.push(await started);
        return servers.at(-1)!.port;
      };
      const plain = registry(() => `http://packages.good.test:${ports.packages}`);
      const sealed = registry(() => `https://packages.good.test:${ports.secure}`);
      ports = {
        packages: await register(startHttp(plain)),
        git: await register(startHttp(repository)),
        secure: await register(
          startHttps((request, response) =>
            request.url?.startsWith('/repo.git') === true
              ? repository(request, response)
              : sealed(request, response),
          ),
        ),
        files: await register(
          startHttp((request, response) =>
            response.end(Buffer.alloc(Number(request.url?.slice(1)))),
          ),
        ),
        echo: await register(startTls((socket) => void socket.on('error', () => {}).pipe(socket))),
      };
      runtime = await startRuntime({
        agents: { worker: workerOf() },
        config: JSON.stringify({
          modeld: scriptedModels(model.url),
          toold: { egress_bytes_max: BYTES_MAX },
          egressd: {
            hosts: Object.fromEntries(NAMES.map((name) => [name, '127.0.0.1'])),
            allow_private: hostsOf().map((host) => JSON.parse(host) as string),
            mirrors: ['packages.good.test', 'second.good.test'],
          },
        }),
        ...(mode === 'user' && IS_ROOT ? { uid: NOBODY } : {}),
      });
    });
    after(async () => {
      await runtime?.remove();
      await model?.close();
      for (const started of servers) await started.close();
      rmSync(dir, { recursive: true, force: true });
    });

    let tasks = 0;
    /** Runs the commands one after the other in one run and resolves with their results. */
    const run = async (...commands: string[]): Promise<Result[]> => {
      const goal = `Do ${mode} ${tasks++}.`;
      const steps = commands.map((command) => says(call('shell.exec', { command })));
      let results: string[] = [];
      model.on(goal, ...steps, (scene) => {
        results = scene.results;
        return finishes('done');
      });
      const task = await doTask(runtime, goal, { agent: 'worker' });
      assert.equal(task.status, 'completed', JSON.stringify(task));
      return results.map((text) => JSON.parse(text) as Result);
    };
    const trusting = `printf '%s' '${CERT}' > /tmp/ca.pem; export GIT_SSL_CAINFO=/tmp/ca.pem`;
    const install = (origin: string) =>
      `mkdir -p p && cd p && echo '{}' > package.json && npm install tiny-thing ` +
      `--cafile=/tmp/ca.pem --registry ${origin}/ --no-audit --no-fund --fetch-retries=0 && ` +
      `node -p "require('tiny-thing')"; cd ..`;

    it('git clones and npm installs, with and without TLS, using only the box’s settings', async () => {
      for (const [git, npm] of [
        [`http://git.good.test:${ports.git}`, `http://packages.good.test:${ports.packages}`],
        [`https://git.good.test:${ports.secure}`, `https://packages.good.test:${ports.secure}`],
      ] as const) {
        const command = `${trusting}; git clone -q ${git}/repo.git r && cat r/hello; ${install(npm)}`;
        const [done] = await run(command);
        assert.match(done?.stdout ?? '', /^hello\n.*\ntiny\n$/s, JSON.stringify(done));
        assert.equal(done?.network_denied, undefined);
      }
      const denied = `http://evil.good.test:${ports.packages}`;
      const [none] = await run(`${trusting}; ${install(denied)}; git ls-remote ${denied}/repo.git`);
      assert.doesNotMatch(none?.stdout ?? '', /tiny\n/);
      assert.deepEqual(
        [...new Set(none?.network_denied?.map(({ host }) => host))],
        ['evil.good.test'],
      );
    });

    it('a fetch marks the run: the next command may read, but sends nothing', async () => {
      const clone = (to: string) => `git clone -q http://git.good.test:${ports.git}/repo.git ${to}`;
      const secure = `https://git.good.test:${ports.secure}/repo.git`;
      const [first, second] = await run(
        clone('one'),
        `${clone('two')}; ${trusting}; git ls-remote ${secure}; ` +
          `curl -sS -o /dev/null -w '%{http_code}' http://files.good.test:${ports.files}/10`,
      );
      assert.equal(first?.exit_code, 0, JSON.stringify(first));
      assert.equal(second?.stdout, '200', 'reading still works');
      const reasons = second?.network_denied?.map(({ reason }) => reason).join('\n') ?? '';
      assert.match(reasons, /may not send POST/);
      assert.match(reasons, /no tunnel/);
      assert.match(second?.network_denied?.[0]?.hint ?? '', /http\.fetch/);
    });

    it('limits the bytes per run, across its commands', async () => {
      const get = (bytes: number) =>
        `curl -sS http://files.good.test:${ports.files}/${bytes} | wc -c`;
      const [one, two, three] = await run(
        get(BYTES_MAX * 0.6),
        `${get(BYTES_MAX * 0.6)}; ${get(BYTES_MAX * 0.6)}`,
        get(BYTES_MAX * 0.5),
      );
      assert.equal(Number(one?.stdout), BYTES_MAX * 0.6);
      const sizes = [one, two, three].flatMap((done) =>
        done!.stdout.trim().split('\n').map(Number),
      );
      const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
      assert.ok(total > BYTES_MAX * 0.6 && total < BYTES_MAX, `${sizes.join(' + ')} came`);
      assert.match(two?.network_denied?.[0]?.reason ?? '', /used up the bytes/);
      const cut = await eventually('the log to have it', async () =>
        (await allEvents(runtime)).find(
          ({ event, status }) => event === 'network.closed' && status === 'budget',
        ),
      );
      assert.equal(cut.data?.host, 'files.good.test');
      // Another run has its own limit.
      const [fresh] = await run(get(BYTES_MAX * 0.6));
      assert.equal(Number(fresh?.stdout), BYTES_MAX * 0.6);
    });

    it('removing a host from the manifest aborts connections to it, and no others', async () => {
      const goal = `Talk ${mode}.`;
      model.on(
        goal,
        says(call('shell.exec', { command: `node -e "${talk(ports.echo)}"` })),
        ({ results }) => finishes(results[0]!),
      );
      const task = await create(runtime, goal, { agent: 'worker' });
      await eventually('both tunnels to be open', async () => {
        const { egress } = await runtime.egressd.listEgress({});
        const own = egress.find(({ task_id }) => task_id === task.id);
        return own?.open === 2 ? true : undefined;
      });
      const file = join(runtime.stateDir, '..', 'agents', 'worker.yaml');
      const whole = readFileSync(file, 'utf8');
      try {
        writeFileSync(file, workerOf('first.good.test'));
        const ended = await taskEnded(runtime, task.id);
        const { stdout } = JSON.parse(ended.result ?? '{}') as Result;
        // The second is still in use after the first was aborted.
        assert.match(stdout, /^first closed\nsecond goes on\n$/, JSON.stringify(ended));
        const hosts = await eventually('it in the log', async () => {
          const cut = (await allEvents(runtime)).filter(
            ({ event, status, task_id }) =>
              event === 'network.closed' && status === 'cut' && task_id === task.id,
          );
          const found = cut
            .map(({ data }) => data?.host)
            .filter((one) => one === 'first.good.test');
          return found.length > 0 ? found : undefined;
        });
        assert.deepEqual(hosts, ['first.good.test']);
      } finally {
        writeFileSync(file, whole);
      }
    });
  });

function startHttps(serve: Parameters<typeof startHttp>[0]): Promise<WirePosition> {
  const server = https.createServer({ cert: CERT, key: KEY }, serve);
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        close: () =>
          new Promise((done) => {
            server.close(() => done());
            server.closeAllConnections();
          }),
      }),
    ),
  );
}

/** Opens a tunnel to each of two names, keeps both busy, and prints when they end. */
const talk = (port: number): string =>
  `const net = require('net'), tls = require('tls');
  const open = (name, over, heard) => {
    const at = name + '.good.test:${port}';
    const socket = net.connect(3128, '127.0.0.1');
    socket.write('CONNECT ' + at + ' HTTP/1.1\\r\\nHost: ' + at + '\\r\\n\\r\\n');
    socket.once('data', () => {
      const options = { socket, servername: name + '.good.test', rejectUnauthorized: false };
      const wire = tls.connect(options).on('error', () => {}).on('close', over).on('data', heard);
      setInterval(() => wire.write('x'), 50);
    });
  };
  let isCut = false, after = 0;
  open('first', () => { isCut = true; console.log('first closed'); }, () => {});
  open('second', () => { console.log('second closed'); process.exit(); }, () => {
    if (isCut && ++after === 20) { console.log('second goes on'); process.exit(); }
  });`.replaceAll('\n', ' ');
