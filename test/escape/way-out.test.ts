// Attacks on the way out of a box: names, addresses, requests and tunnels that lead somewhere else.
// Each is first tried through a proxy with the guards off, where it must succeed. The ids are those
// of the list of known attacks.
import assert from 'node:assert/strict';
import { promises as dns } from 'node:dns';
import net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { startHost, type TestHost } from '../../src/daemons/egressd/testing/host.ts';
import {
  type Answer,
  connectThrough,
  connectTo,
  errorOf,
  exchange,
  type Place,
  readAnswer,
  speakTls,
  startHttp,
  startTcp,
  startTls,
} from '../../src/daemons/egressd/testing/wires.ts';
import type { EgressRule } from '../../src/wire/egressd.ts';
import { type NaiveOptions, startNaive } from './support/naive-proxy.ts';
import { type NameServer, startNameServer } from './support/name-server.ts';

const SECRET = 'the secret of the host';
const PUBLIC = '93.184.216.34';

const get = (authority: string, path = '/', host = authority) =>
  `GET http://${authority}${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;

let secret: Place;
let web: Place;
let seen: string[] = [];
let host: TestHost;
let dialled: string[] = [];
let names: NameServer;
const places: { close(): Promise<void> }[] = [];

/** Where public addresses of the tests lead: nothing leaves this machine. */
const publicPorts = new Map<string, () => number>();

before(async () => {
  secret = await startHttp((_, response) => response.end(SECRET));
  web = await startHttp((request, response) => {
    seen.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`);
    request.resume();
    request.on('end', () => response.end(`page of ${request.headers.host}`));
  });
  places.push(secret, web);
  publicPorts.set(PUBLIC, () => web.port);
  names = await startNameServer((name, times) => {
    if (name === 'rebind.test') return [times === 0 ? PUBLIC : '127.0.0.1'];
    if (name === 'mixed.test') return [PUBLIC, '127.0.0.1'];
    if (name === 'loop.test') return ['127.0.0.1'];
    if (name === 'lan.test') return ['192.168.1.1'];
    if (name === 'meta.test') return ['169.254.169.254'];
    if (name === 'slow.test') return undefined;
    return name.endsWith('good.test') ? [PUBLIC] : [];
  });
  host = await startHost({
    config: {
      dns_servers: [names.address],
      dns_timeout_ms: 600,
      head_timeout_ms: 400,
      connections_per_run_max: 16,
      allow_private: ['169.254.169.254:80', '[fd00:ec2::254]:80', 'meta.test:80', '0.0.0.0:80'],
    },
    async dial(addresses, port) {
      dialled.push(...addresses.map(({ text }) => `${text} ${port}`));
      const to = publicPorts.get(addresses[0]!.text)?.() ?? port;
      const socket = net.connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
      await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
      return { socket, address: addresses[0]!.text };
    },
  });
});
after(async () => {
  await host.stop();
  names.close();
  for (const place of places) await place.close();
});

let made = 0;
const wayFor = async (allow: EgressRule[]): Promise<string> => {
  dialled = [];
  seen = [];
  return (await host.open(`attack ${made++}`, allow)).socket;
};
const everywhere = (name: string): EgressRule[] =>
  [80, 443, secret.port, web.port].map((port) => ({ host: name, port }));

/** The same attack with the guards off. */
async function unguarded<T>(
  options: NaiveOptions,
  attack: (port: number) => Promise<T>,
): Promise<T> {
  const proxy = await startNaive(options);
  try {
    return await attack(proxy.port);
  } finally {
    await proxy.close();
  }
}

const refused = (answer: Answer, code = 'denied'): void => {
  assert.equal(errorOf(answer).code, code, answer.body);
  assert.notEqual(errorOf(answer).hint, '');
};

describe('names', () => {
  it('D3 an empty list allows nothing', async () => {
    const attack = (port: number | string) => exchange(port, get(`127.0.0.1:${secret.port}`));
    assert.equal((await unguarded({}, attack)).body, SECRET);
    refused(await attack(await wayFor([])));
    assert.deepEqual(dialled, []);
  });

  it('D4 a name that only looks like a listed one is another name', async () => {
    const tricks = [
      'notgood.test',
      'good.test.evil.test',
      'evil.test',
      'www.good.test.',
      'good-test',
    ];
    const lookup = async () => '127.0.0.1';
    const allows = (name: string) => name.includes('good');
    const asked = names.asked.length;
    const socket = await wayFor(everywhere('good.test'));
    for (const trick of tricks) {
      const attack = (at: number | string) => exchange(at, get(`${trick}:${secret.port}`));
      if (trick !== 'evil.test')
        assert.equal((await unguarded({ allows, lookup }, attack)).body, SECRET, trick);
      refused(await attack(socket));
    }
    assert.deepEqual(dialled, []);
    assert.equal(names.asked.length, asked, 'a name that is not allowed is not even looked up');
    const same = ['good.test', 'GOOD.Test', 'good.test.'];
    for (const name of same) assert.equal((await exchange(socket, get(name))).status, 200, name);
  });

  it('D4 a suffix is what is below it, not the name itself nor its end', async () => {
    const socket = await wayFor(everywhere('*.good.test'));
    assert.equal((await exchange(socket, get('a.b.good.test'))).status, 200);
    for (const name of ['good.test', 'notgood.test', 'a.good.test.evil.test'])
      refused(await exchange(socket, get(name)));
  });
});

describe('addresses', () => {
  it('D6 an allowed name that leads inside is refused', async () => {
    const resolver = new dns.Resolver();
    resolver.setServers([names.address]);
    const lookup = async (name: string) => (await resolver.resolve4(name))[0]!;
    const attack = (at: number | string) => exchange(at, get(`loop.test:${secret.port}`));
    assert.equal((await unguarded({ lookup }, attack)).body, SECRET);
    const socket = await wayFor([...everywhere('loop.test'), ...everywhere('lan.test')]);
    refused(await attack(socket));
    refused(await exchange(socket, get('lan.test')));
    assert.deepEqual(dialled, []);
  });

  it('D6 one address inside among several spoils them all', async () => {
    const socket = await wayFor(everywhere('mixed.test'));
    refused(await exchange(socket, get('mixed.test')));
    assert.deepEqual(dialled, []);
  });

  it('D6 a name that changes its address after the check gains nothing', async () => {
    const attack = (at: number | string) => exchange(at, get(`rebind.test:${secret.port}`));
    // A name server of its own, so that the control does not use up the first answer.
    const own = await startNameServer((_, times) => [times === 0 ? PUBLIC : '127.0.0.1']);
    const resolver = new dns.Resolver();
    resolver.setServers([own.address]);
    const lookup = async (name: string) => (await resolver.resolve4(name))[0]!;
    const checks = (address: string) => address === PUBLIC;
    assert.equal((await unguarded({ lookup, checks }, attack)).body, SECRET);
    own.close();
    const socket = await wayFor(everywhere('rebind.test'));
    assert.notEqual((await attack(socket)).body, SECRET);
    assert.deepEqual(dialled, [`${PUBLIC} ${secret.port}`], 'what was checked is what is dialled');
    const before = names.asked.filter((name) => name === 'rebind.test').length;
    assert.equal(before, 1, 'looked up once');
    refused(await attack(await wayFor(everywhere('rebind.test'))));
  });

  it('D6 D24 addresses in odd forms are no addresses', async () => {
    const forms = [
      '127.0.0.1',
      '0x7f.1',
      '0177.0.0.1',
      '2130706433',
      '127.1',
      '[::ffff:127.0.0.1]',
    ];
    const rules = ['127.0.0.1', 'good.test', '[::1]', '[::ffff:127.0.0.1]'].flatMap(everywhere);
    const socket = await wayFor(rules);
    for (const form of forms) {
      const attack = (at: number | string) => exchange(at, get(`${form}:${secret.port}`));
      assert.equal((await unguarded({}, attack)).body, SECRET, form);
      refused(await attack(socket));
      const { answer } = await connectThrough(socket, `${form}:${secret.port}`);
      refused(answer);
    }
    for (const form of [
      '[::1]',
      '[::1%lo]',
      '[::]',
      '0',
      'localhost',
      '0.0.0.0',
      '[64:ff9b::7f00:1]',
    ])
      refused(await exchange(socket, get(`${form}:${secret.port}`)));
    assert.deepEqual(dialled, []);
  });

  it('D7 a metadata service is never reached, whatever is listed', async () => {
    const all = [
      '169.254.169.254',
      '[fd00:ec2::254]',
      '100.100.100.200',
      '168.63.129.16',
      'meta.test',
    ];
    const socket = await wayFor(all.map((name) => ({ host: name, port: 80 })));
    for (const name of all) {
      const answer = await exchange(socket, get(name, '/latest/meta-data'));
      refused(answer);
      assert.match(errorOf(answer).message, /metadata/, name);
    }
    assert.deepEqual(dialled, []);
  });

  it('D6 this host is not reached by its own address', async () => {
    const { networkInterfaces } = await import('node:os');
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const socket = await wayFor(
      own.map(({ address }) => ({ host: address.split('%')[0]!, port: secret.port })),
    );
    for (const { address, family } of own) {
      const bare = address.split('%')[0]!;
      const name = family === 'IPv6' ? `[${bare}]` : bare;
      refused(await exchange(socket, get(`${name}:${secret.port}`)));
    }
    assert.deepEqual(dialled, []);
  });

  it('D8 no answer from the name server is a refusal, and soon', async () => {
    const socket = await wayFor([...everywhere('slow.test'), ...everywhere('nowhere.test')]);
    for (const name of ['slow.test', 'nowhere.test'])
      refused(await exchange(socket, get(name)), 'unreachable');
    assert.deepEqual(dialled, []);
  });
});

describe('requests', () => {
  it('D11 the Host header and the address must agree', async () => {
    const lookup = async () => '127.0.0.1';
    const fronted = (at: number | string) =>
      exchange(at, get('good.test', '/', `evil.test:${web.port}`));
    const allows = () => true;
    assert.match((await unguarded({ allows, lookup }, fronted)).body, /page of evil/);
    const socket = await wayFor(everywhere('good.test'));
    refused(await fronted(socket));
    const head = `CONNECT good.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n`;
    refused(await exchange(socket, head));
    const twice = `GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n`;
    refused(await exchange(socket, twice));
    refused(await exchange(socket, get('good.test@evil.test', '/', 'evil.test')));
    assert.deepEqual(seen, []);
  });

  it('D15 a request hidden in another does not pass', async () => {
    const lookup = async () => '127.0.0.1';
    const at = `good.test:${web.port}`;
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
    seen = [];
    await unguarded({ lookup }, async (port) => {
      const wire = await connectTo(port);
      wire.send(plain.replace(`http://${at}`, ''));
      await wire.until(/page of [\s\S]*page of/);
      wire.socket.destroy();
    });
    assert.match(seen[1]!, /hidden/, 'behind a proxy that does not look, it is a request');
    const socket = await wayFor([{ host: 'good.test', port: web.port, paths: ['/open'] }]);
    for (const attack of [...attacks, plain]) {
      const wire = await connectTo(socket);
      wire.send(attack);
      wire.socket.end();
      await wire.closed();
    }
    assert.deepEqual(
      seen.filter((line) => line.includes('hidden')),
      [],
    );
  });

  it('D15 lines smuggled into a header or an address are refused', async () => {
    const socket = await wayFor(everywhere('good.test'));
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
    assert.deepEqual(seen, []);
  });

  it('D15 paths that servers read differently are not inside a listed path', async () => {
    const lookup = async () => '127.0.0.1';
    const tricks = ['/open/../secret', '/open/%2e%2e/secret', '/open//secret', '/open/..;/secret'];
    const socket = await wayFor([{ host: 'good.test', port: web.port, paths: ['/open/*'] }]);
    for (const path of [...tricks, '/open/%2fsecret', '/open/%5c..%5csecret']) {
      const attack = (at: number | string) => exchange(at, get(`good.test:${web.port}`, path));
      const allows = (name: string) => name === 'good.test';
      assert.equal((await unguarded({ lookup, allows }, attack)).status, 200, path);
      refused(await attack(socket));
    }
    assert.equal((await exchange(socket, get(`good.test:${web.port}`, '/open/x'))).status, 200);
  });

  it('D15 TRACE, Upgrade and what is meant for the proxy go no further', async () => {
    const lookup = async () => '127.0.0.1';
    const at = `good.test:${web.port}`;
    const ask = (head: string, more: string) =>
      `${head} HTTP/1.1\r\nHost: ${at}\r\n${more}Connection: close\r\n\r\n`;
    const key = 'Proxy-Authorization: Basic c2VjcmV0\r\nKeep-Alive: 5\r\n';
    seen = [];
    await unguarded({ lookup }, (port) => exchange(port, ask('GET /', key)));
    assert.match(seen[0]!, /c2VjcmV0/);
    const socket = await wayFor(everywhere('good.test'));
    assert.equal((await exchange(socket, ask(`GET http://${at}/`, key))).status, 200);
    assert.doesNotMatch(seen[0]!, /c2VjcmV0|keep-alive: 5/i);
    refused(await exchange(socket, ask(`TRACE http://${at}/`, '')));
    const upgrade = 'Upgrade: websocket\r\n';
    refused(await exchange(socket, ask(`GET http://${at}/`, upgrade)));
    assert.equal(seen.length, 1);
  });
});

describe('tunnels', () => {
  let secure: Place;
  let echo: Place;
  before(async () => {
    secure = await startTls((socket) => {
      socket.on('error', () => socket.destroy());
      socket.write(`you reached ${(socket as { servername?: string }).servername}`);
    });
    echo = await startTcp((socket) => socket.pipe(socket));
    places.push(secure, echo);
  });
  const through = async (at: number | string, name: string, port: number) => {
    const { wire, answer } = await connectThrough(at, `good.test:${port}`);
    assert.equal(answer.status, 200);
    const tls = await speakTls(wire, name);
    const text = await new Promise((resolve) => tls.once('data', (c) => resolve(String(c))));
    tls.destroy();
    return text;
  };

  it('D10 D11 TLS to another server than the tunnel was opened to is cut', async () => {
    const lookup = async () => '127.0.0.1';
    const attack = (at: number | string) => through(at, 'other.test', secure.port);
    const allows = (name: string) => name === 'good.test';
    assert.match(String(await unguarded({ lookup, allows }, attack)), /reached other/);
    publicPorts.set(PUBLIC, () => secure.port);
    const socket = await wayFor([{ host: 'good.test', port: secure.port }]);
    await assert.rejects(attack(socket), /unrecognized name/);
    assert.equal(await through(socket, 'good.test', secure.port), 'you reached good.test');
  });

  it('D17 what is not TLS does not pass, on any port', async () => {
    const lookup = async () => '127.0.0.1';
    publicPorts.set(PUBLIC, () => echo.port);
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
      const socket = await wayFor([{ host: 'good.test', port: 443 }]);
      const text = await (await attack(socket, 443)).closed();
      assert.ok(!text.includes(bytes), JSON.stringify(text));
    }
  });

  it('D17 plain HTTP in a tunnel is read like any other, with its Host and path', async () => {
    publicPorts.set(PUBLIC, () => web.port);
    const socket = await wayFor([{ host: 'good.test', port: 8080, paths: ['/open'] }]);
    const ask = async (bytes: string) => {
      const { wire, answer } = await connectThrough(socket, 'good.test:8080');
      assert.equal(answer.status, 200);
      wire.send(bytes);
      const text = await wire.closed();
      return readAnswer(text.slice(text.indexOf('\r\n\r\n') + 4));
    };
    const request = (path: string, name = 'good.test:8080') =>
      `GET ${path} HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`;
    assert.equal((await ask(request('/open'))).status, 200);
    refused(await ask(request('/closed')));
    refused(await ask(request('/open', 'evil.test')));
    refused(await ask('CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n'));
    assert.equal(seen.length, 1);
  });

  it('D18 many who say nothing, or endlessly little, keep nobody else waiting', async () => {
    publicPorts.set(PUBLIC, () => web.port);
    const socket = await wayFor(everywhere('good.test'));
    const other = await wayFor(everywhere('good.test'));
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
    // A tunnel in which nothing is ever said.
    const { wire } = await connectThrough(socket, 'good.test:443');
    await wire.closed();
  });

  it('D22 bytes are counted in both directions, and end', async () => {
    const lookup = async () => '127.0.0.1';
    publicPorts.set(PUBLIC, () => echo.port);
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
    const run = await host.open(`attack ${made++}`, allow, { bytes_max: 200_000 });
    const text = await (await leak(run.socket)).closed();
    assert.ok(text.length < 200_000);
    const { egress } = await host.operator.getEgress({ params: { id: run.id } });
    assert.ok(egress.bytes_sent + egress.bytes_received <= 200_000);
  });

  it('D13 behind a relay of the box the verdict is the same', async () => {
    publicPorts.set(PUBLIC, () => web.port);
    const socket = await wayFor(everywhere('good.test'));
    const relay = await startTcp((client) => {
      const way = net.connect(socket);
      client.pipe(way).pipe(client);
    });
    places.push(relay);
    assert.equal((await exchange(relay.port, get('good.test'))).status, 200);
    refused(await exchange(relay.port, get('evil.test')));
    refused((await connectThrough(relay.port, 'evil.test:443')).answer);
  });
});
