// Real programs go through egressd with exactly the settings a box is given: curl, git, npm, Node.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { proxyEnvironment } from '../../policy/egress.ts';
import type { EgressRule } from '../../wire/egressd.ts';
import { CERT } from './testing/cert.ts';
import { startHost, type TestHost, type TestRun } from './testing/host.ts';
import { type Place, startHttp, startRelay, startTls } from './testing/wires.ts';

type Ran = { status: number | null; out: string; err: string };

/** The environment has nothing but what a box has, so that nothing else can help. */
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

/** A tar archive of plain files, as small as can be. */
function tarOf(files: Record<string, string>): Buffer {
  const blocks = Object.entries(files).flatMap(([name, text]) => {
    const head = Buffer.alloc(512);
    head.write(name, 0);
    head.write('0000644\0'.padEnd(8), 100);
    head.write('0000000\0', 108);
    head.write('0000000\0', 116);
    head.write(`${Buffer.byteLength(text).toString(8).padStart(11, '0')}\0`, 124);
    head.write('00000000000\0', 136);
    head.write('        ', 148);
    head.write('0', 156);
    head.write('ustar\x0000', 257);
    const sum = head.reduce((total, byte) => total + byte, 0);
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    const body = Buffer.alloc(Math.ceil(Buffer.byteLength(text) / 512) * 512);
    body.write(text);
    return [head, body];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1_024)]);
}

/** A registry with one package. */
function registry(origin: () => string): http.RequestListener {
  const manifest = { name: 'tiny-thing', version: '1.0.0', main: 'index.js' };
  const tarball = gzipSync(
    tarOf({
      'package/package.json': JSON.stringify(manifest),
      'package/index.js': "module.exports = 'tiny';\n",
    }),
  );
  return (request, response) => {
    if (request.url === '/tiny-thing/-/tiny-thing-1.0.0.tgz') return void response.end(tarball);
    if (request.url !== '/tiny-thing') return void response.writeHead(404).end('{}');
    const dist = {
      tarball: `${origin()}/tiny-thing/-/tiny-thing-1.0.0.tgz`,
      integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
    };
    const versions = { '1.0.0': { ...manifest, dist } };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ...manifest, 'dist-tags': { latest: '1.0.0' }, versions }));
  };
}

describe('clients with the settings of a box', () => {
  const dir = mkdtempSync(join(tmpdir(), 'egress-clients-'));
  const places: Place[] = [];
  let host: TestHost;
  let way: TestRun;
  let env: Record<string, string>;
  let web: Place;
  let secure: Place;
  let packages: Place;
  let repository: Place;
  const seen: string[] = [];

  before(async () => {
    const keep = (place: Place): Place => {
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
    repository = keep(await startHttp(await gitServer(dir)));
    const names = ['good.test', 'packages.good.test', 'git.good.test'];
    const ports = [web, secure, packages, repository].map(({ port }) => port);
    host = await startHost({
      config: {
        hosts: Object.fromEntries([...names, 'evil.test'].map((name) => [name, '127.0.0.1'])),
        allow_private: names.flatMap((name) => ports.map((port) => `${name}:${port}`)),
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

  it('curl: a denied host is answered at once, in words', async () => {
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

  it('git clones and fetches, whatever proxy a repository names', async () => {
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
    // A repository that names another proxy does not get around this one.
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
        ...['install', 'tiny-thing', '--prefix', project, '--registry', origin],
        ...['--no-audit', '--no-fund', '--fetch-retries=0', '--ignore-scripts'],
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

  it("Node's fetch and http need no code of their own", async () => {
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
      ...['--input-type=module', '-e', 'console.log(await (await fetch(process.argv[1])).text())'],
      `https://good.test:${secure.port}/`,
    );
    assert.equal(tls.out, 'secret\n', tls.err);
  });

  it('[R148] what it says of them: who was reached, who was not', async () => {
    const { egress } = await host.operator.getEgress({ params: { id: way.id } });
    assert.ok(egress.bytes_sent > 3_000_000);
    const asked = egress.denials.filter(({ askable }) => askable).map(({ host }) => host);
    assert.deepEqual([...new Set(asked)], ['evil.test']);
    const allowed = await host.eventsOf('network.allowed');
    const hosts = new Set(allowed.map(({ data }) => data?.host));
    assert.deepEqual([...hosts].sort(), ['git.good.test', 'good.test', 'packages.good.test']);
  });
});

/** git's own server, behind the few lines of CGI it needs. */
async function gitServer(dir: string): Promise<http.RequestListener> {
  const work = join(dir, 'work');
  const bare = join(dir, 'served', 'repo.git');
  const env = { HOME: dir, GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b.test' };
  const all = { ...env, GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b.test' };
  const git = async (...argv: string[]) => {
    const { status, err } = await run(all, 'git', ...argv);
    assert.equal(status, 0, err);
  };
  await git('init', '-q', work);
  writeFileSync(join(work, 'hello'), 'hello\n');
  await git('-C', work, 'add', 'hello');
  await git('-C', work, 'commit', '-q', '-m', 'say hello');
  await git('clone', '-q', '--bare', work, bare);
  return (request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split('?');
    const child = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env.PATH ?? '',
        ...{ GIT_PROJECT_ROOT: join(dir, 'served'), GIT_HTTP_EXPORT_ALL: '1', PATH_INFO: path },
        ...{ QUERY_STRING: query, REQUEST_METHOD: request.method ?? 'GET', REMOTE_ADDR: '-' },
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
      },
    });
    request.pipe(child.stdin);
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('close', () => {
      const whole = Buffer.concat(chunks);
      const end = whole.indexOf('\r\n\r\n');
      const lines = whole.subarray(0, end).toString().split('\r\n');
      const status = lines.find((line) => /^status:/i.test(line))?.split(' ')[1] ?? '200';
      for (const line of lines) {
        const [, name, value] = /^([^:]+): (.*)$/.exec(line) ?? [];
        if (name !== undefined && !/^status$/i.test(name)) response.setHeader(name, value!);
      }
      response.writeHead(Number(status)).end(whole.subarray(end + 4));
    });
  };
}
