// The options of sendmail, as mail, mutt, git and cron give them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOptions } from './sendmail.ts';

const read = (line: string) => readOptions(line.split(' '));

test('what programs give is understood', () => {
  const cron = read('-FCronDaemon -i -odi -oem -oi -t -f root');
  assert.deepEqual(
    [cron.readsRecipients, cron.endsAtDot, cron.to, cron.problem],
    [true, false, [], undefined],
  );
  const snail = read('-i -r ann@example.org -- coder bob@localhost');
  assert.deepEqual([snail.to, snail.endsAtDot], [['coder', 'bob@localhost'], false]);
  const mutt = read('-oem -oi -f ann@example.org -- coder');
  assert.deepEqual(mutt.to, ['coder']);
  assert.deepEqual(read('-ti').readsRecipients, true);
  assert.equal(read('-f <> coder').isBounce, true);
  assert.equal(read('-fann coder').isBounce, false);
});

test('an option that would do something else is refused, and so is nobody', () => {
  assert.match(read('-bs').problem!, /-bs of sendmail is not supported/);
  assert.match(read('-q30m').problem!, /not supported/);
  assert.match(read('-i').problem!, /no recipient/);
});
