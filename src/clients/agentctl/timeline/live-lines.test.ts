// Live items as lines: complete, bounded, and never able to act on the terminal.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import type { LiveItem } from '../../../wire/live.ts';
import { paintNothing } from '../out.ts';
import { makeLiveLines } from './live-lines.ts';

const item = (text: string, kind: LiveItem['kind'] = 'stdout', call = 'one'): LiveItem => ({
  kind,
  call_id: deriveId('call', call),
  task_id: deriveId('task', 'one'),
  agent: 'coder',
  source: kind === 'stdout' || kind === 'stderr' ? 'shell.exec' : 'default',
  text,
});
let now = 0;
const make = (columns = 40) => makeLiveLines({ columns, paint: paintNothing }, () => now);

test('lines are printed when they are complete, below who it is', () => {
  const live = make();
  assert.deepEqual(live.add(item('hel')), []);
  assert.deepEqual(live.add(item('lo\nwor')), ['coder runs shell.exec', '  │ hello']);
  assert.deepEqual(live.add(item('ld\n')), ['  │ world']);
  assert.deepEqual(live.add(item('I ', 'text', 'two')), []);
  assert.deepEqual(live.flush(), ['coder says', '  │ I']);
  assert.deepEqual(live.add(item('file_read', 'tool_call', 'two')), [
    'coder calls',
    '  │ file_read',
  ]);
});

test('a long line is wrapped and cut; one without an end is printed in parts', () => {
  const live = make(14);
  assert.deepEqual(live.add(item('aaaa bbbb cccc\n')).slice(1), ['  │ aaaa bbbb', '  ┆ cccc']);
  const [, first = ''] = make(10_000).add(item(`${'x'.repeat(3_000)}\n`));
  assert.match(first, /^ {2}│ x{2000}… \(1000 more\)$/);
  const words = make(1_000).add(item('word '.repeat(100), 'text'));
  assert.equal(words.length, 4, 'a head and three parts');
});

test('nothing acts on the terminal or passes for output of agentctl', () => {
  const attack = [
    '\u001b[2J\u001b[Hcleared',
    '\u001b]0;title\u0007titled',
    '\u001b]8;;http://x.example\u001b\\link\u001b]8;;\u001b\\',
    '\u001bPq#0\u001b\\sixel',
    'one\rtwo',
    '\u009b31mred \u202egnirts\u202c',
    '\u001b[31mcolour\u001b[0m',
    'half \u001b[',
  ].join('\n');
  const lines = make(80).add(item(`${attack}\n`));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
  assert.doesNotMatch(lines.join(''), /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
  assert.ok(lines.slice(1).every((line) => /^ {2}[│┆]/.test(line)));
  assert.match(lines.join('\n'), /│ cleared\n {2}│ titled\n {2}│ link\n {2}│ sixel\n {2}│ one\n/);
  const halves = make(80);
  halves.add(item('a\u001b'));
  assert.ok(!halves.add(item('[2Jb\n')).join('').includes('\u001b'));
});

test('a flood is counted instead of printed', () => {
  now = 5_000;
  const live = make();
  const first = live.add(item('y\n'.repeat(5_000)));
  assert.equal(first.length, 101);
  assert.deepEqual(live.add(item('y\n'.repeat(10))), []);
  now = 6_000;
  assert.deepEqual(live.add(item('end\n')), [
    '… 4,910 lines left out (agentctl task transcript --full)',
    '  │ end',
  ]);
});

test('what the reader was too slow for is named', () => {
  assert.deepEqual(make().add({ left_out_chars: 12 }), ['… 12 characters left out']);
});
