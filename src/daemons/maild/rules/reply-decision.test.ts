// The first line of a reply: exactly a decision, or none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readReplyDecision } from './reply-decision.ts';

const code = 'abcde-fgh23';

test('a decision, in any case of letters', () => {
  assert.deepEqual(readReplyDecision(`approve ${code}`), { answer: 'approve', code });
  assert.deepEqual(readReplyDecision(`Approve \t ABCDE-FGH23`), { answer: 'approve', code });
  assert.deepEqual(readReplyDecision(`reject ${code}`), { answer: 'reject', code });
  assert.deepEqual(readReplyDecision(`reject ${code} not now`), {
    answer: 'reject',
    code,
    reason: 'not now',
  });
});

test('anything else is none', () => {
  for (const line of [
    null,
    '',
    'approve',
    code,
    `approve ${code}.`,
    `approve ${code} if it works`,
    `approve ${code} ${code}`,
    `> approve ${code}`,
    `please approve ${code}`,
    `don't approve ${code}`,
    `approve: ${code}`,
    `approve abcde\u2011fgh23`,
    `approve\u00a0${code}`,
  ])
    assert.equal(readReplyDecision(line), undefined, String(line));
});
