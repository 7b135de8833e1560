// Personal data is found by its shape and checksum; text that only resembles it passes.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { findPersonalData } from './personal-data.ts';

const found: [kind: string, text: string][] = [
  ['mail address', 'Write to maria.lopez+work@firma.co.uk.'],
  ['mail address', '<Hans.Meier@uni-koeln.de>'],
  ['phone number', 'Call +49 221 470 1234'],
  ['phone number', '+1 (415) 555-2671'],
  ['phone number', '+971501234567'],
  ['phone number', 'Her number is (415) 555-2671.'],
  ['card number', 'paid with 4111 1111 1111 1111'],
  ['card number', '5500-0055-5555-5559'],
  ['card number', '3782 822463 10005'],
  ['bank account number', 'DE89 3704 0044 0532 0130 00'],
  ['bank account number', 'GB82WEST12345698765432'],
  ['social security number', 'SSN 536-90-4399'],
];

const harmless = [
  'git@github.com:agentd/agentd.git',
  'someone@example.com wrote to no-reply@service.io',
  'logo@2x.png',
  '2026-11-19T10:20:30.123+02:00',
  'build 4111 1111 1111 1112',
  'order 1234567890123456',
  '0.1.2+build.45',
  'ids 0000000000000000 and 4444444444444444',
  'DE00 3704 0044 0532 0130 00',
  'port 8080, pid 123-45',
  'range 000-12-3456',
  'a + 1234 - 5678',
  '@types/node@24.19.2',
  'x = +1 - 2',
];

describe('personal data', () => {
  for (const [kind, text] of found)
    it(`finds: ${text}`, () => assert.deepEqual(findPersonalData(text), [kind]));
  for (const text of harmless)
    it(`lets pass: ${text}`, () => assert.deepEqual(findPersonalData(text), []));

  it('stays quick for adversarial text', () => {
    const began = performance.now();
    for (const part of ['a@', 'a.', '+1 2', '4111 ', 'DE89 ', '1-', 'a@b.'])
      findPersonalData(part.repeat(100_000));
    assert.ok(performance.now() - began < 20_000);
  });
});
