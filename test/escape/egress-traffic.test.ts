// Attacks on egress by content: requests that the next server interprets differently, and tunnels
// that carry another protocol. Each must first succeed through a proxy without guards.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, it } from 'node:test';
import {
  connectThrough,
  connectTo,
  exchange,
  readAnswer,
  speakTls,
  startTcp,
  startTls,
  type WirePosition,
} from '../../src/daemons/egressd/testing/wires.ts';
import {
  assertRefused,
  type EgressSetup,
  get,
  PUBLIC,
  startEgressSetup,
  unguarded,
} from './support/egress-setup.ts';

let setup: EgressSetup;
before(async () => {
  setup = await startEgressSetup();
});
after(() => setup.close());

describe('requests', () => {
  it('D11 the Host header and the address must agree', async () => {
    const lookup = async () => '127.0.0.1';
    const fronted = (at: number | string) =>
      exchange(at, get('good.test', '/', `evil.test:${setup.web.port}`));
    const allows = () => true;
    assert.match((await unguarded({ allows, lookup }, fronted)).body, /page of evil/);
    const socket = await setup.open(setup.everywhere('good.test'));
    assertRefused(await fronted(socket));
    const head = `CONNECT good.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n`;
    assertRefused(await exchange(socket, head));
    const twice = `GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n`;
    assertRefused(await exchange(socket, twice));
    assertRefused(await exchange(socket, get('good.test@evil.test', '/', 'evil.test')));
    assert.deepEqual(setup.seen, []);
  });

  it('D15 a request smuggled inside another is refused', async () => {
    const lookup = async () => '127.0.0.1';
    const at = `good.test:${setup.web.port}`;
    const hidden = `GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n`;
    const start = `POST http://${at}/open HTTP/1.1\r\nHost: ${at}\r\n`;
    const attacks = [
      `${start}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
      `${start}Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n${hidden}`,
      `${start}Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
      `${start}Content-Length: 0\r\nX: y\n\r\n${hidden}`,
      `${start}Content-Length : 0\r\n\r\n${hidden}`,
      `${start}X: y\r\n folded: z\r\nContent-Length: 0\r\n\r\n${hidden}`,
    ];
    const plain = `${start}Content-Length: 0\r\n\r\n${hidden}`;
    setup.seen = [];
    await unguarded({ lookup }, async (port) => {
      const wire = await connectTo(port);
      wire.send(plain.replace(`http://${at}`, ''));
      await wire.until(/page of [\s\S]*page of/);
      wire.socket.destroy();
    });
    assert.match(setup.seen[1]!, /hidden/, 'behind a naive proxy it is a request');
    const socket = await setup.open([
      { host: 'good.test', port: setup.web.port, paths: ['/open'] },
    ]);
    for (const attack of [...attacks, plain]) {
      const wire = await connectTo(socket);
      wire.send(attack);
      wire.socket.end();
      await wire.closed();
    }
    assert.deepEqual(
      setup.seen.filter((line) => line.includes('hidden')),
      [],
    );
  });

  it('D15 lines smuggled into a header or an address are refused', async () => {
    const socket = await setup.open(setup.everywhere('good.test'));
    for (const bytes of [
      'GET http://good.test/%0d%0aX: y\r\nHost: evil.test HTTP/1.1\r\nHost: good.test\r\n\r\n',
      'GET http://good.test/ HTTP/1.1\r\nHost: good.test\rX-Evil: 1\r\n\r\n',
      'GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nX: a\0b\r\n\r\n',
      'CONNECT good.test:443\r\nX: y HTTP/1.1\r\n\r\n',
      'GET http://good.test/ HTTP/1.1\nHost: good.test\n\n',
    ]) {
      const { status } = await exchange(socket, bytes);
      assert.ok(status === 400 || status === 403, `${status} for ${JSON.stringify(bytes)}`);
    }
    assert.deepEqual(setup.seen, []);
  });

  it('D15 paths that servers normalize differently do not match a listed path', async () => {
    const lookup = async () => '127.0.0.1';
    const tricks = ['/open/../secret', '/open/%2e%2e/secret', '/open//secret', '/open/..;/secret'];
    const socket = await setup.open([
      { host: 'good.test', port: setup.web.port, paths: ['/open/*'] },
    ]);
    for (const path of [...tricks, '/open/%2fsecret', '/open/%5c..%5csecret']) {
      const attack = (at: number | string) =>
        exchange(at, get(`good.test:${setup.web.port}`, path));
      const allows = (name: string) => name === 'good.test';
      assert.equal((await unguarded({ lookup, allows }, attack)).status, 200, path);
      assertRefused(await attack(socket));
    }
    assert.equal(
      (await exchange(socket, get(`good.test:${setup.web.port}`, '/open/x'))).status,
      200,
    );
  });

  it('D15 a header that replaces the method or the path gets past no rule about them', async () => {
    const at = `good.test:${setup.web.port}`;
    const names = ['X-HTTP-Method-Override', 'x-http-method', 'X_HTTP_METHOD_OVERRIDE'];
    const lines = [...names.map((name) => `${name}: DELETE`), 'X-Original-URL: /secret'];
    const open = (rule: object) =>
      setup.open([{ host: 'good.test', port: setup.web.port, ...rule }]);
    for (const line of [...lines, 'X-Rewrite-URL: /secret', 'X-Method-Override: DELETE'])
      for (const rule of [{ methods: ['POST'] }, { paths: ['/open/*'] }]) {
        const request = (more: string) =>
          `POST http://${at}/open/x HTTP/1.1\r\nHost: ${at}\r\n${more}Content-Length: 0\r\nConnection: close\r\n\r\n`;
        const free = await open({});
        assert.equal((await exchange(free, request(`${line}\r\n`))).status, 200, line);
        assert.ok(setup.seen[0]!.toLowerCase().includes(line.split(':')[0]!.toLowerCase()));
        const socket = await open(rule);
        assert.equal((await exchange(socket, request(''))).status, 200, 'without the header');
        assertRefused(await exchange(socket, request(`${line}\r\n`)));
        assert.equal(setup.seen.length, 1);
      }
  });

  it('D15 TRACE, Upgrade and proxy headers are not forwarded', async () => {
    const lookup = async () => '127.0.0.1';
    const at = `good.test:${setup.web.port}`;
    const request = (head: string, more: string) =>
      `${head} HTTP/1.1\r\nHost: ${at}\r\n${more}Connection: close\r\n\r\n`;
    const key = 'Proxy-Authorization: Basic c2VjcmV0\r\nKeep-Alive: 5\r\n';
    setup.seen = [];
    await unguarded({ lookup }, (port) => exchange(port, request('GET /', key)));
    assert.match(setup.seen[0]!, /c2VjcmV0/);
    const socket = await setup.open(setup.everywhere('good.test'));
    assert.equal((await exchange(socket, request(`GET http://${at}/`, key))).status, 200);
    assert.doesNotMatch(setup.seen[0]!, /c2VjcmV0|keep-alive: 5/i);
    assertRefused(await exchange(socket, request(`TRACE http://${at}/`, '')));
    const upgrade = 'Upgrade: websocket\r\n';
    assertRefused(await exchange(socket, request(`GET http://${at}/`, upgrade)));
    assert.equal(setup.seen.length, 1);
  });
});

describe('tunnels', () => {
  let secure: WirePosition;
  let echo: WirePosition;
  before(async () => {
    secure = await startTls((socket) => {
      socket.on('error', () => socket.destroy());
      socket.write(`you reached ${(socket as { servername?: string }).servername}`);
    });
    echo = await startTcp((socket) => socket.pipe(socket));
    setup.servers.push(secure, echo);
  });
  const through = async (at: number | string, name: string, port: number) => {
    const { wire, answer } = await connectThrough(at, `good.test:${port}`);
    assert.equal(answer.status, 200);
    const tls = await speakTls(wire, name);
    const text = await new Promise((resolve) => tls.once('data', (c) => resolve(String(c))));
    tls.destroy();
    return text;
  };

  it('D10 D11 TLS to a server other than the tunnel’s target is aborted', async () => {
    const lookup = async () => '127.0.0.1';
    const attack = (at: number | string) => through(at, 'other.test', secure.port);
    const allows = (name: string) => name === 'good.test';
    assert.match(String(await unguarded({ lookup, allows }, attack)), /reached other/);
    setup.publicPorts.set(PUBLIC, () => secure.port);
    const socket = await setup.open([{ host: 'good.test', port: secure.port }]);
    await assert.rejects(attack(socket), /unrecognized name/);
    assert.equal(await through(socket, 'good.test', secure.port), 'you reached good.test');
  });

  it('D17 a tunnel carries nothing but TLS, on any port', async () => {
    const lookup = async () => '127.0.0.1';
    setup.publicPorts.set(PUBLIC, () => echo.port);
    const attacks = [
      'SSH-2.0-OpenSSH_9.2\r\n',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'HELO me\r\n',
      '\x00\x01',
    ];
    for (const bytes of [...attacks, 'GET / HTTP/1.1\r\nHost: good.test\r\n\r\n']) {
      const attack = async (at: number | string, port: number) => {
        const { wire } = await connectThrough(at, `good.test:${port}`);
        wire.send(bytes);
        return wire;
      };
      await unguarded({ lookup }, async (port) => {
        const wire = await attack(port, echo.port);
        await wire.until(bytes);
        wire.socket.destroy();
      });
      const socket = await setup.open([{ host: 'good.test', port: 443 }]);
      const text = await (await attack(socket, 443)).closed();
      assert.ok(!text.includes(bytes), JSON.stringify(text));
    }
  });

  it('D17 plain HTTP in a tunnel is checked like any other, with its Host and path', async () => {
    setup.publicPorts.set(PUBLIC, () => setup.web.port);
    const socket = await setup.open([{ host: 'good.test', port: 8080, paths: ['/open'] }]);
    const send = async (bytes: string) => {
      const { wire, answer } = await connectThrough(socket, 'good.test:8080');
      assert.equal(answer.status, 200);
      wire.send(bytes);
      const text = await wire.closed();
      return readAnswer(text.slice(text.indexOf('\r\n\r\n') + 4));
    };
    const request = (path: string, name = 'good.test:8080') =>
      `GET ${path} HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`;
    assert.equal((await send(request('/open'))).status, 200);
    assertRefused(await send(request('/closed')));
    assertRefused(await send(request('/open', 'evil.test')));
    assertRefused(await send('CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n'));
    assert.equal(setup.seen.length, 1);
  });

  it('D18 many silent or slow clients do not delay others', async () => {
    setup.publicPorts.set(PUBLIC, () => setup.web.port);
    const socket = await setup.open(setup.everywhere('good.test'));
    const other = await setup.open(setup.everywhere('good.test'));
    const silent = await Promise.all(Array.from({ length: 40 }, () => connectTo(socket)));
    for (const wire of silent) wire.send('GET http://good.test/ HT');
    const texts = await Promise.all(silent.map((wire) => wire.closed()));
    const codes = texts.map((text) => readAnswer(text).status);
    assert.equal(codes.filter((code) => code === 503).length, 24, codes.join(' '));
    assert.ok(codes.every((code) => code === 503 || code === 504));
    assert.equal((await exchange(other, get('good.test'))).status, 200);
    assert.equal((await exchange(socket, get('good.test'))).status, 200);
    const long = `GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nX: ${'x'.repeat(60_000)}\r\n\r\n`;
    assert.equal((await exchange(socket, long)).status, 413);
    // A tunnel in which nothing is ever sent.
    const { wire } = await connectThrough(socket, 'good.test:443');
    await wire.closed();
  });

  it('D22 bytes are counted in both directions up to the limit', async () => {
    const lookup = async () => '127.0.0.1';
    setup.publicPorts.set(PUBLIC, () => echo.port);
    const much = 'x'.repeat(500_000);
    const leak = async (at: number | string) => {
      const { wire } = await connectThrough(at, `good.test:${echo.port}`);
      wire.send(much);
      return wire;
    };
    await unguarded({ lookup }, async (port) => {
      const wire = await leak(port);
      await wire.until(much);
      wire.socket.destroy();
    });
    const allow = [{ host: 'good.test', port: echo.port, plain: true }];
    const run = await setup.host.open(`budget ${Date.now()}`, allow, { bytes_max: 200_000 });
    const text = await (await leak(run.socket)).closed();
    assert.ok(text.length < 200_000);
    const { egress } = await setup.host.operator.getEgress({ params: { id: run.id } });
    assert.ok(egress.bytes_sent + egress.bytes_received <= 200_000);
  });

  it('D13 the decision is the same behind a relay in the box', async () => {
    setup.publicPorts.set(PUBLIC, () => setup.web.port);
    const socket = await setup.open(setup.everywhere('good.test'));
    const relay = await startTcp((client) => {
      const upstream = net.connect(socket);
      client.pipe(upstream).pipe(client);
    });
    setup.servers.push(relay);
    assert.equal((await exchange(relay.port, get('good.test'))).status, 200);
    assertRefused(await exchange(relay.port, get('evil.test')));
    assertRefused((await connectThrough(relay.port, 'evil.test:443')).answer);
  });
});
