// Attacks on the way out of a box by names and addresses that lead somewhere else. Each is first
// tried through a proxy with the guards off, where it must succeed. The ids are those of the list
// of known attacks.
import assert from 'node:assert/strict';
import { promises as dns } from 'node:dns';
import { networkInterfaces } from 'node:os';
import { after, before, describe, it } from 'node:test';
import {
  connectThrough,
  exchange,
  parseErrorBody,
} from '../../src/daemons/egressd/testing/wires.ts';
import { startNameServer } from './support/name-server.ts';
import {
  assertRefused,
  get,
  PUBLIC,
  SECRET,
  startWayOut,
  unguarded,
  type WayOut,
} from './support/way-out.ts';

let way: WayOut;
before(async () => {
  way = await startWayOut();
});
after(() => way.close());

describe('names', () => {
  it('[C21] D3 an empty list allows nothing', async () => {
    const attack = (port: number | string) => exchange(port, get(`127.0.0.1:${way.secret.port}`));
    assert.equal((await unguarded({}, attack)).body, SECRET);
    assertRefused(await attack(await way.open([])));
    assert.deepEqual(way.dialled, []);
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
    const asked = way.names.asked.length;
    const socket = await way.open(way.everywhere('good.test'));
    for (const trick of tricks) {
      const attack = (at: number | string) => exchange(at, get(`${trick}:${way.secret.port}`));
      if (trick !== 'evil.test')
        assert.equal((await unguarded({ allows, lookup }, attack)).body, SECRET, trick);
      assertRefused(await attack(socket));
    }
    assert.deepEqual(way.dialled, []);
    assert.equal(way.names.asked.length, asked, 'a name that is not allowed is not even looked up');
    const same = ['good.test', 'GOOD.Test', 'good.test.'];
    for (const name of same) assert.equal((await exchange(socket, get(name))).status, 200, name);
  });

  it('D4 a suffix is what is below it, not the name itself nor its end', async () => {
    const socket = await way.open(way.everywhere('*.good.test'));
    assert.equal((await exchange(socket, get('a.b.good.test'))).status, 200);
    for (const name of ['good.test', 'notgood.test', 'a.good.test.evil.test'])
      assertRefused(await exchange(socket, get(name)));
  });
});

describe('addresses', () => {
  it('D6 an allowed name that leads inside is refused', async () => {
    const resolver = new dns.Resolver();
    resolver.setServers([way.names.address]);
    const lookup = async (name: string) => (await resolver.resolve4(name))[0]!;
    const attack = (at: number | string) => exchange(at, get(`loop.test:${way.secret.port}`));
    assert.equal((await unguarded({ lookup }, attack)).body, SECRET);
    const socket = await way.open([...way.everywhere('loop.test'), ...way.everywhere('lan.test')]);
    assertRefused(await attack(socket));
    assertRefused(await exchange(socket, get('lan.test')));
    assert.deepEqual(way.dialled, []);
  });

  it('D6 one address inside among several spoils them all', async () => {
    const socket = await way.open(way.everywhere('mixed.test'));
    assertRefused(await exchange(socket, get('mixed.test')));
    assert.deepEqual(way.dialled, []);
  });

  it('D6 a name that changes its address after the check gains nothing', async () => {
    const attack = (at: number | string) => exchange(at, get(`rebind.test:${way.secret.port}`));
    // A name server of its own, so that the control does not use up the first answer.
    const own = await startNameServer((_, times) => [times === 0 ? PUBLIC : '127.0.0.1']);
    const resolver = new dns.Resolver();
    resolver.setServers([own.address]);
    const lookup = async (name: string) => (await resolver.resolve4(name))[0]!;
    const checks = (address: string) => address === PUBLIC;
    assert.equal((await unguarded({ lookup, checks }, attack)).body, SECRET);
    own.close();
    const socket = await way.open(way.everywhere('rebind.test'));
    assert.notEqual((await attack(socket)).body, SECRET);
    assert.deepEqual(
      way.dialled,
      [`${PUBLIC} ${way.secret.port}`],
      'what was checked is what is way.dialled',
    );
    const before = way.names.asked.filter((name) => name === 'rebind.test').length;
    assert.equal(before, 1, 'looked up once');
    assertRefused(await attack(await way.open(way.everywhere('rebind.test'))));
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
    const rules = ['127.0.0.1', 'good.test', '[::1]', '[::ffff:127.0.0.1]'].flatMap(way.everywhere);
    const socket = await way.open(rules);
    for (const form of forms) {
      const attack = (at: number | string) => exchange(at, get(`${form}:${way.secret.port}`));
      assert.equal((await unguarded({}, attack)).body, SECRET, form);
      assertRefused(await attack(socket));
      const { answer } = await connectThrough(socket, `${form}:${way.secret.port}`);
      assertRefused(answer);
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
      assertRefused(await exchange(socket, get(`${form}:${way.secret.port}`)));
    assert.deepEqual(way.dialled, []);
  });

  it('D7 a metadata service is never reached, whatever is listed', async () => {
    const all = [
      '169.254.169.254',
      '[fd00:ec2::254]',
      '100.100.100.200',
      '168.63.129.16',
      'meta.test',
    ];
    const socket = await way.open(all.map((name) => ({ host: name, port: 80 })));
    for (const name of all) {
      const answer = await exchange(socket, get(name, '/latest/meta-data'));
      assertRefused(answer);
      assert.match(parseErrorBody(answer).message, /metadata/, name);
    }
    assert.deepEqual(way.dialled, []);
  });

  it('D6 this host is not reached by its own address', async () => {
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const socket = await way.open(
      own.map(({ address }) => ({ host: address.split('%')[0]!, port: way.secret.port })),
    );
    for (const { address, family } of own) {
      const bare = address.split('%')[0]!;
      const name = family === 'IPv6' ? `[${bare}]` : bare;
      assertRefused(await exchange(socket, get(`${name}:${way.secret.port}`)));
    }
    assert.deepEqual(way.dialled, []);
  });

  it('D8 no answer from the name server is a refusal, and soon', async () => {
    const socket = await way.open([
      ...way.everywhere('slow.test'),
      ...way.everywhere('nowhere.test'),
    ]);
    for (const name of ['slow.test', 'nowhere.test'])
      assertRefused(await exchange(socket, get(name)), 'unreachable');
    assert.deepEqual(way.dialled, []);
  });
});
