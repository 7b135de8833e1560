// Tests that real programs (curl, git, npm, Node) use egressd with exactly a box's settings.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gitServer } from '../../../test/support/git-server.ts';
import { registry } from '../../../test/support/package-registry.ts';
import { proxyEnvironment } from '../../policy/egress.ts';
import type { EgressRule } from '../../wire/egressd.ts';
import { CERT } from './testing/cert.ts';
import { type EgressdTestHost, type EgressdTestRun, startHost } from './testing/host.ts';
import { startHttp, startRelay, startTls, type WirePosition } from './testing/wires.ts';

type Ran = { status: number | null; out: string; err: string };

/** The environment has only what a box has. */
function run(env: Record<string, string>, command: string, ...argv: string[]): Promise<Ran> {
  const PATH = process.env.PATH ?? '';
  const child = spawn(command, argv, {
    env: { PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  const ran: Ran = { status: null, out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    ran.out += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    ran.err += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve({ ...ran, status }));
  });
}

describe("clients with a box's settings", () => {
  const dir = mkdtempSync(join(tmpdir(), 'egress-clients-'));
  const places: WirePosition[] = [];
  let host: EgressdTestHost;
  let way: EgressdTestRun;
  let env: Record<string, string>;
  let web: WirePosition;
  let secure: WirePosition;
  let packages: WirePosition;
  let repository: WirePosition;
  const seen: string[] = [];

  before(async () => {
    const keep = (place: WirePosition): WirePosition => {
      places.push(place);
      return place;
    };
    web = keep(
      await startHttp((request, response) => {
        seen.push(`${request.method} ${request.url}`);
        let size = 0;
        request.on('data', (chunk: Buffer) => {
          size += chunk.length;
        });
        request.on('end', () => response.end(`${request.method} ${request.url} ${size}`));
      }),
    );
    secure = keep(
      await startTls((socket) => {
        socket.on('error', () => socket.destroy());
        socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret'));
      }),
    );
    packages = keep(await startHttp(registry(() => `http://packages.good.test:${packages.port}`)));
    repository = keep(await startHttp(gitServer(dir)));
    const names = ['good.test', 'packages.good.test', 'git.good.test'];
    const ports = [web, secure, packages, repository].map(({ port }) => port);
    host = await startHost({
      config: {
        hosts: Object.fromEntries([...names, 'evil.test'].map((name) => [name, '127.0.0.1'])),
        allow_private: names.flatMap((name) => ports.map((port) => `${name}:${port}`)),
        mirrors: ['*.good.test'],
      },
    });
    const allow: EgressRule[] = names.flatMap((name) =>
      ports.map((port) => ({ host: name, port })),
    );
    way = await host.open('clients', allow);
    const relay = keep(await startRelay(way.socket));
    env = { ...proxyEnvironment(`http://127.0.0.1:${relay.port}`), HOME: dir };
    writeFileSync(join(dir, 'ca.pem'), CERT);
  });
  after(async () => {
    await host.stop();
    for (const place of places) await place.close();
    rmSync(dir, { recursive: true, force: true });
  });

  it('curl: plain, with a body, through a tunnel, and TLS', async () => {
    const url = `http://good.test:${web.port}`;
    assert.equal((await run(env, 'curl', '-sS', `${url}/a?b=1`)).out, 'GET /a?b=1 0');
    const body = join(dir, 'body');
    writeFileSync(body, Buffer.alloc(3_000_000, 1));
    const sent = await run(env, 'curl', '-sS', '--data-binary', `@${body}`, `${url}/up`);
    assert.equal(sent.out, 'POST /up 3000000');
    const tunnelled = await run(env, 'curl', '-sS', '--proxytunnel', `${url}/t`);
    assert.equal(tunnelled.out, 'GET /t 0');
    const ca = ['--cacert', join(dir, 'ca.pem')];
    const tls = await run(env, 'curl', '-sS', ...ca, `https://good.test:${secure.port}/`);
    assert.equal(tls.out, 'secret', tls.err);
  });

  it('curl: a denied host fails at once, with the reason', async () => {
    const plain = await run(env, 'curl', '-sS', `http://evil.test:${web.port}/`);
    const { error } = JSON.parse(plain.out) as { error: { code: string; hint: string } };
    assert.equal(error.code, 'denied');
    assert.match(error.hint, /network\.request/);
    const tls = await run(env, 'curl', '-sS', 'https://evil.test/');
    assert.notEqual(tls.status, 0);
    assert.match(tls.err, /403/);
    assert.deepEqual(
      seen.filter((line) => line.includes('evil')),
      [],
    );
  });

  it('git clones and fetches, whatever proxy a repository configures', async () => {
    const url = `http://git.good.test:${repository.port}/repo.git`;
    const target = join(dir, 'clone');
    const cloned = await run(env, 'git', 'clone', '-q', url, target);
    assert.equal(cloned.status, 0, cloned.err);
    assert.equal(readFileSync(join(target, 'hello'), 'utf8'), 'hello\n');
    const denied = await run(
      env,
      'git',
      'ls-remote',
      `http://evil.test:${repository.port}/repo.git`,
    );
    assert.notEqual(denied.status, 0);
    assert.match(denied.err, /403/);
    // A repository that configures another proxy cannot bypass this one.
    await run(env, 'git', '-C', target, 'config', 'http.proxy', 'http://127.0.0.1:9');
    const again = await run(env, 'git', '-C', target, 'fetch', '-q');
    assert.equal(again.status, 0, again.err);
  });

  it('npm installs from a registry', async () => {
    const project = join(dir, 'project');
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), '{"name":"p","version":"1.0.0"}');
    const npm = (origin: string) =>
      run(
        { ...env, npm_config_cache: join(dir, 'npm-cache'), npm_config_update_notifier: 'false' },
        'npm',
        'install',
        'tiny-thing',
        '--prefix',
        project,
        '--registry',
        origin,
        '--no-audit',
        '--no-fund',
        '--fetch-retries=0',
        '--ignore-scripts',
      );
    const installed = await npm(`http://packages.good.test:${packages.port}/`);
    assert.equal(installed.status, 0, installed.err);
    const main = join(project, 'node_modules', 'tiny-thing', 'index.js');
    assert.match(readFileSync(main, 'utf8'), /tiny/);
    rmSync(join(project, 'node_modules'), { recursive: true });
    rmSync(join(project, 'package-lock.json'));
    rmSync(join(dir, 'npm-cache'), { recursive: true });
    const refused = await npm(`http://evil.test:${packages.port}/`);
    assert.notEqual(refused.status, 0);
    assert.match(refused.err, /403/);
  });

  it("Node's fetch and http need no extra code", async () => {
    const url = `http://good.test:${web.port}`;
    const script = `const url = process.argv[1];
      console.log(await (await fetch(url + '/fetch')).text());
      const { get } = await import('node:http');
      get(url + '/get', async (answer) => console.log((await answer.toArray()).join('')));`;
    const node = (where: string) =>
      run(env, process.execPath, '--input-type=module', '-e', script, where);
    const ran = await node(url);
    assert.equal(ran.out, 'GET /fetch 0\nGET /get 0\n', ran.err);
    const refused = await node(`http://evil.test:${web.port}`);
    assert.doesNotMatch(refused.out, /GET/);
    const ca = { NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem') };
    const tls = await run(
      { ...env, ...ca },
      process.execPath,
      '--input-type=module',
      '-e',
      'console.log(await (await fetch(process.argv[1])).text())',
      `https://good.test:${secure.port}/`,
    );
    assert.equal(tls.out, 'secret\n', tls.err);
  });

  it('[R148] the log names the hosts that were reached and denied', async () => {
    const { egress } = await host.operator.getEgress({ params: { id: way.id } });
    assert.ok(egress.bytes_sent > 3_000_000);
    const askable = egress.denials.filter((denial) => denial.askable).map(({ host }) => host);
    assert.deepEqual([...new Set(askable)], ['evil.test']);
    const allowed = await host.eventsOf('network.allowed');
    const hosts = new Set(allowed.map(({ data }) => data?.host));
    assert.deepEqual([...hosts].sort(), ['git.good.test', 'good.test', 'packages.good.test']);
  });
});
