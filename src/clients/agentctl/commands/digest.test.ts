// The digest on a terminal: it fits, and its headings stand out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paintNothing, paintSgr } from '../out.ts';
import { measureWidth } from '../show/width.ts';
import { layOutDigest } from './digest.ts';

const TEXT =
  'WAITS FOR YOU: 1\n  coder asks: 鷺はどこですか。鷺はどこですか。鷺はどこですか。\u202eEvil\n\nNOW: x';

test('a digest fits the terminal, also where characters take two columns; a pipe gets all of it', () => {
  const lines = layOutDigest(TEXT, { columns: 40, paint: paintNothing });
  for (const line of lines) assert.ok(measureWidth(line) <= 40, line);
  assert.match(lines[1]!, /^ {2}coder asks: 鷺.*…$/);
  const piped = layOutDigest(TEXT, { columns: Number.POSITIVE_INFINITY, paint: paintNothing });
  assert.equal(piped.join('\n'), TEXT.replace('\u202e', '\ufffd'));
});

test('its headings are bold', () => {
  const lines = layOutDigest(TEXT, { columns: 80, paint: paintSgr });
  assert.deepEqual(
    lines.map((line) => line.startsWith('\u001b[1m')),
    [true, false, false, true],
  );
});
