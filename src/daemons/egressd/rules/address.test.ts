// Tests the kinds of addresses, in all their notations and embeddings.
import assert from 'node:assert/strict';
import { BlockList } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseIp } from '../../../policy/hosts.ts';
import { type AddressKind, classifyAddress } from './address.ts';

const none: ReadonlySet<string> = new Set();
const kind = (text: string, own = none): AddressKind => classifyAddress(parseIp(text)!, own);

describe('the kind of an address', () => {
  it('is determined by its range', () => {
    const table: Partial<Record<AddressKind, string[]>> = {
      public: ['8.8.8.8', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '2a00::1'],
      loopback: ['127.0.0.1', '127.255.255.254', '::1'],
      private: ['10.1.2.3', '172.16.0.1', '172.31.255.255', '192.168.0.1', 'fd12::1', 'fec0::1'],
      carrier: ['100.64.0.1', '100.127.255.255'],
      'link-local': ['169.254.0.1', 'fe80::1'],
      multicast: ['224.0.0.1', '239.255.255.250', 'ff02::1'],
      unspecified: ['0.0.0.0', '0.1.2.3', '::'],
      reserved: [
        '240.0.0.1',
        '255.255.255.255',
        '192.0.2.1',
        '198.18.0.1',
        '2001:db8::1',
        '100::1',
      ],
      metadata: [
        '169.254.169.254',
        '169.254.170.2',
        '100.100.100.200',
        '168.63.129.16',
        '192.0.0.192',
        'fd00:ec2::254',
      ],
    };
    for (const [expected, texts] of Object.entries(table))
      for (const text of texts) assert.equal(kind(text), expected, text);
  });

  it('is that of the embedded address', () => {
    for (const [outer, expected] of [
      ['::ffff:127.0.0.1', 'loopback'],
      ['::ffff:169.254.169.254', 'metadata'],
      ['::ffff:8.8.8.8', 'reserved'],
      ['::ffff:0:10.0.0.1', 'private'],
      ['64:ff9b::7f00:1', 'loopback'],
      ['64:ff9b::a9fe:a9fe', 'metadata'],
      ['64:ff9b::8.8.8.8', 'public'],
      ['64:ff9b:1::7f00:1', 'reserved'],
      ['2002:7f00:1::', 'loopback'],
      ['2002:808:808::', 'reserved'],
      ['2001:0:0:0:0:0:80ff:fffe', 'loopback'],
      ['::7f00:1', 'reserved'],
    ] as const)
      assert.equal(kind(outer), expected, outer);
  });

  it('is this host for one of its own', () => {
    assert.equal(kind('8.8.8.8', new Set(['8.8.8.8'])), 'this-host');
    assert.equal(kind('2a00::1', new Set(['2a00::1'])), 'this-host');
    assert.equal(kind('127.0.0.1', new Set(['127.0.0.1'])), 'loopback');
  });

  it('agrees with Node on private ranges', () => {
    const list = new BlockList();
    for (const [net, bits] of [
      ['10.0.0.0', 8],
      ['172.16.0.0', 12],
      ['192.168.0.0', 16],
      ['127.0.0.0', 8],
      ['169.254.0.0', 16],
      ['100.64.0.0', 10],
      ['224.0.0.0', 4],
      ['240.0.0.0', 4],
      ['0.0.0.0', 8],
    ] as const)
      list.addSubnet(net as string, bits as number);
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        if (list.check(text)) assert.notEqual(kind(text), 'public', text);
      }),
      { numRuns: 5_000 },
    );
  });
});
