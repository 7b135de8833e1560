// Who an address is: agents, people, groups, aliases; nobody else, and no other host.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Directory, resolveAddress } from './recipients.ts';
import { completeSubmission, readAddresses } from './submission.ts';

const directory: Directory = {
  domains: ['agentd.localhost', 'localhost'],
  agents: ['coder', 'ada', 'rex'],
  personas: new Map([
    ['coder', 'coder'],
    ['ada', 'coder'],
    ['rex', 'reviewer'],
  ]),
  aliases: { team: ['coder', 'ann'], wide: ['team', 'rex'], loop: ['loop'], deep: ['nobody'] },
  postmaster: 'operator',
  isPerson: (name) => ['ann', 'operator', 'bob@example.org'].includes(name),
};
const names = (address: string): string => {
  const found = resolveAddress(address, directory);
  return found.ok
    ? found.to.map(({ kind, name }) => `${kind[0]}:${name}`).join(' ')
    : found.refusal.text.slice(0, 5);
};

test('[K72] [K73] [K74] agents, people, all, <persona>-all, postmaster and static aliases', () => {
  assert.equal(names('coder@localhost'), 'a:coder');
  assert.equal(names('ann@AGENTD.localhost'), 'p:ann');
  assert.equal(names('bob@example.org'), 'p:bob@example.org');
  assert.equal(names('all@localhost'), 'a:coder a:ada a:rex');
  assert.equal(names('coder-all'), 'a:coder a:ada');
  assert.equal(names('Postmaster@localhost'), 'p:operator');
  assert.equal(names('root'), 'p:operator');
  assert.equal(names('wide'), 'a:coder p:ann a:rex');
});

test('unknown names, other hosts, and what is no address', () => {
  for (const address of ['nobody@localhost', 'writer-all', 'deep', 'loop'])
    assert.equal(names(address), '5.1.1', address);
  assert.equal(names('coder@example.org'), '5.7.1');
  for (const address of ['', '.', '..', '../ann', 'a b', 'ann\n', '@localhost', '-x'])
    assert.equal(names(address), '5.1.3', JSON.stringify(address));
});

test('a submission gets the fields it lacks, and loses Bcc', () => {
  const facts = {
    address: 'ann@x',
    messageId: 'id@x',
    nowMs: 0,
    readsRecipients: true,
    to: ['rex'],
  };
  const text = 'To: "Smith, Ann" <ann>,\n coder\nBcc: ada,\n bob\nSubject: Hi\n\nBody\n.\n';
  const { raw, to } = completeSubmission(Buffer.from(text), facts);
  assert.deepEqual(to, ['rex', 'ann', 'coder', 'ada', 'bob']);
  const lines = raw.toString().split('\r\n');
  assert.deepEqual(lines.slice(0, 3), [
    'Date: Thu, 01 Jan 1970 00:00:00 +0000',
    'From: <ann@x>',
    'Message-ID: <id@x>',
  ]);
  assert.ok(!raw.toString().includes('ada'));
  assert.ok(raw.toString().endsWith('\r\nSubject: Hi\r\n\r\nBody\r\n.\r\n'));
  const bare = completeSubmission(Buffer.from('Just text, http://x\n'), facts).raw.toString();
  assert.ok(bare.endsWith('\r\n\r\nJust text, http://x\r\n'));
  assert.deepEqual(readAddresses('a, <b@c> , "x, y" <d>'), ['a', 'b@c', 'd']);
});
