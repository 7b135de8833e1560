// Attacks on egress by names and addresses that lead elsewhere. Each must first succeed through a
// proxy without guards. The ids are those of the list of known attacks.
import assert from 'node:assert/strict';
import { promises as dns } from 'node:dns';
import { networkInterfaces } from 'node:os';
import { after, before, describe, it } from 'node:test';
import {
  connectThrough,
  exchange,
  parseErrorBody,
} from '../../src/daemons/egressd/testing/wires.ts';
import {
  assertRefused,
  type EgressSetup,
  get,
  PUBLIC,
  SECRET,
  startEgressSetup,
  unguarded,
} from './support/egress-setup.ts';
import { startNameServer } from './support/name-server.ts';

let setup: EgressSetup;
before(async () => {
  setup = await startEgressSetup();
});
after(() => setup.close());

describe('names', () => {
  it('[C21] D3 an empty list allows nothing', async () => {
    const attack = (port: number | string) => exchange(port, get(`127.0.0.1:${setup.secret.port}`));
    assert.equal((await unguarded({}, attack)).body, SECRET);
    assertRefused(await attack(await setup.open([])));
    assert.deepEqual(setup.dialled, []);
  });

  it('D4 a name that resembles a listed one is not allowed', async () => {
    const tricks = [
      'notgood.test',
      'good.test.evil.test',
      'evil.test',
      'www.good.test.',
      'good-test',
    ];
    const lookup = async () => '127.0.0.1';
    const allows = (name: string) => name.includes('good');
    const queriesBefore = setup.names.queries.length;
    const socket = await setup.open(setup.everywhere('good.test'));
    for (const trick of tricks) {
      const attack = (at: number | string) => exchange(at, get(`${trick}:${setup.secret.port}`));
      if (trick !== 'evil.test')
        assert.equal((await unguarded({ allows, lookup }, attack)).body, SECRET, trick);
      assertRefused(await attack(socket));
    }
    assert.deepEqual(setup.dialled, []);
    assert.equal(
      setup.names.queries.length,
      queriesBefore,
      'a name that is not allowed is not even looked up',
    );
    const same = ['good.test', 'GOOD.Test', 'good.test.'];
    for (const name of same) assert.equal((await exchange(socket, get(name))).status, 200, name);
  });

  it('D4 a wildcard covers subdomains, not the name itself or names that end alike', async () => {
    const socket = await setup.open(setup.everywhere('*.good.test'));
    assert.equal((await exchange(socket, get('a.b.good.test'))).status, 200);
    for (const name of ['good.test', 'notgood.test', 'a.good.test.evil.test'])
      assertRefused(await exchange(socket, get(name)));
  });
});

describe('addresses', () => {
  it('D6 an allowed name that resolves to a private address is refused', async () => {
    const resolver = new dns.Resolver();
    resolver.setServers([setup.names.address]);
    const lookup = async (name: string) => (await resolver.resolve4(name))[0]!;
    const attack = (at: number | string) => exchange(at, get(`loop.test:${setup.secret.port}`));
    assert.equal((await unguarded({ lookup }, attack)).body, SECRET);
    const socket = await setup.open([
      ...setup.everywhere('loop.test'),
      ...setup.everywhere('lan.test'),
    ]);
    assertRefused(await attack(socket));
    assertRefused(await exchange(socket, get('lan.test')));
    assert.deepEqual(setup.dialled, []);
  });

  it('D6 one private address among several refuses the name', async () => {
    const socket = await setup.open(setup.everywhere('mixed.test'));
    assertRefused(await exchange(socket, get('mixed.test')));
    assert.deepEqual(setup.dialled, []);
  });

  it('D6 DNS rebinding after the check has no effect', async () => {
    const attack = (at: number | string) => exchange(at, get(`rebind.test:${setup.secret.port}`));
    // A separate name server, so that the control does not use up the first response.
    const own = await startNameServer((_, times) => [times === 0 ? PUBLIC : '127.0.0.1']);
    const resolver = new dns.Resolver();
    resolver.setServers([own.address]);
    const lookup = async (name: string) => (await resolver.resolve4(name))[0]!;
    const checks = (address: string) => address === PUBLIC;
    assert.equal((await unguarded({ lookup, checks }, attack)).body, SECRET);
    own.close();
    const socket = await setup.open(setup.everywhere('rebind.test'));
    assert.notEqual((await attack(socket)).body, SECRET);
    assert.deepEqual(
      setup.dialled,
      [`${PUBLIC} ${setup.secret.port}`],
      'the checked address is the one dialled',
    );
    const before = setup.names.queries.filter((name) => name === 'rebind.test').length;
    assert.equal(before, 1, 'looked up once');
    assertRefused(await attack(await setup.open(setup.everywhere('rebind.test'))));
  });

  it('D6 D24 addresses in unusual notations are refused', async () => {
    const forms = [
      '127.0.0.1',
      '0x7f.1',
      '0177.0.0.1',
      '2130706433',
      '127.1',
      '[::ffff:127.0.0.1]',
    ];
    const rules = ['127.0.0.1', 'good.test', '[::1]', '[::ffff:127.0.0.1]'].flatMap(
      setup.everywhere,
    );
    const socket = await setup.open(rules);
    for (const form of forms) {
      const attack = (at: number | string) => exchange(at, get(`${form}:${setup.secret.port}`));
      assert.equal((await unguarded({}, attack)).body, SECRET, form);
      assertRefused(await attack(socket));
      const { answer: response } = await connectThrough(socket, `${form}:${setup.secret.port}`);
      assertRefused(response);
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
      assertRefused(await exchange(socket, get(`${form}:${setup.secret.port}`)));
    assert.deepEqual(setup.dialled, []);
  });

  it('D7 a metadata service is never reached, even if listed', async () => {
    const all = [
      '169.254.169.254',
      '[fd00:ec2::254]',
      '100.100.100.200',
      '168.63.129.16',
      'meta.test',
    ];
    const socket = await setup.open(all.map((name) => ({ host: name, port: 80 })));
    for (const name of all) {
      const response = await exchange(socket, get(name, '/latest/meta-data'));
      assertRefused(response);
      assert.match(parseErrorBody(response).message, /metadata/, name);
    }
    assert.deepEqual(setup.dialled, []);
  });

  it('D6 this host is not reachable by its own address', async () => {
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const socket = await setup.open(
      own.map(({ address }) => ({ host: address.split('%')[0]!, port: setup.secret.port })),
    );
    for (const { address, family } of own) {
      const bare = address.split('%')[0]!;
      const name = family === 'IPv6' ? `[${bare}]` : bare;
      assertRefused(await exchange(socket, get(`${name}:${setup.secret.port}`)));
    }
    assert.deepEqual(setup.dialled, []);
  });

  it('D8 a silent name server leads to a refusal, and soon', async () => {
    const socket = await setup.open([
      ...setup.everywhere('slow.test'),
      ...setup.everywhere('nowhere.test'),
    ]);
    for (const name of ['slow.test', 'nowhere.test'])
      assertRefused(await exchange(socket, get(name)), 'unreachable');
    assert.deepEqual(setup.dialled, []);
  });
});
