// The demo's one question: only an explicit yes counts, and Ctrl-C is no answer.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { askYesNo } from '../../demo/ask-yes-no.ts';

async function answerWith(typed: string): Promise<{ answer: boolean | undefined; shown: string }> {
  const input = new PassThrough();
  const output = new PassThrough();
  const asked = askYesNo('Approve?', { input, output, terminal: true });
  input.write(typed);
  return { answer: await asked, shown: String(output.read()) };
}

test('accepts yes or no, and repeats the question otherwise', async () => {
  assert.equal((await answerWith('y\n')).answer, true);
  assert.equal((await answerWith(' YES \n')).answer, true);
  assert.equal((await answerWith('n\n')).answer, false);
  const { answer, shown } = await answerWith('what?\n\nyellow\nno\n');
  assert.equal(answer, false);
  assert.equal(shown.split('Please answer y or n:').length > 3, true, shown);
});

test('Ctrl-C and Ctrl-D are no answer', async () => {
  assert.equal((await answerWith('\u0003')).answer, undefined);
  assert.equal((await answerWith('\u0004')).answer, undefined);
});
